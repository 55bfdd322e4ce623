"""The way into every command, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import errno
import importlib
import os
import sys

from gpudoctor.cli import exit_codes
from gpudoctor.errors import GpudoctorError

# They take words: without an option there is nothing to parse, and the parser is a seventh of a run.
_PLAIN = ("check", "explain")
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def run(arguments: list[str]) -> int:
    """Runs one command. Never raises and never shows a traceback."""
    try:
        _prepare_streams()
        code = _call(arguments)
        sys.stdout.flush()
        return code if isinstance(code, int) else exit_codes.PASSED
    except GpudoctorError as error:
        return _told(error)
    except KeyboardInterrupt:
        print("\ngpudoctor: interrupted", file=sys.stderr)
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`| head`): say nothing, also not when the interpreter flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.PIPE_CLOSED
    except OSError as error:
        if error.filename is None and error.errno in _CANNOT_WRITE:
            reason = (error.strerror or str(error)).lower()
            return _told(
                GpudoctorError(f"the report could not be written: {reason}", "free space, or write elsewhere")
            )
        return _crashed(error)
    except Exception as error:
        return _crashed(error)


def _call(arguments: list[str]) -> object:
    name, *words = arguments or [""]
    if name in _PLAIN and all(word == "-" or not word.startswith("-") for word in words):
        return getattr(importlib.import_module(f"gpudoctor.cli.{name}"), name)(words)
    from gpudoctor.cli.application import call

    return call(arguments)


def _prepare_streams() -> None:
    """Output never fails for an odd locale or a closed stream."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: `>&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _told(error: GpudoctorError) -> int:
    from gpudoctor.render.safe import clean

    lines = [f"gpudoctor: {error.message}", *(f"  {detail}" for detail in error.details)]
    lines += [f"hint: {error.hint}"] if error.hint else []
    for line in lines:
        print(clean(line), file=sys.stderr)
    return exit_codes.UNUSABLE


def _crashed(error: Exception) -> int:
    """One line and the place of the traceback: what a bug report needs, without drowning the terminal."""
    import tempfile
    import traceback

    said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    place = ""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="gpudoctor-", suffix=".txt", delete=False, errors="replace"
        ) as file:
            traceback.print_exception(error, file=file)
            place = f"; details in {file.name}"
    except OSError:
        pass
    print(f"gpudoctor: this is a fault of gpudoctor, please report it: {said}{place}", file=sys.stderr)
    return exit_codes.UNUSABLE
