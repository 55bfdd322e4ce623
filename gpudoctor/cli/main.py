"""The Typer application and the one place where errors become messages and exit codes."""

from __future__ import annotations

import errno
import importlib
import os
import sys

import typer

from gpudoctor.cli import exit_codes
from gpudoctor.errors import GpudoctorError

_EPILOG = (
    "Exit codes: 0 nothing wrong; 1 findings at or above --fail-on; 2 wrong usage or unreadable input; "
    "3 something essential could not be checked."
)

_COMMANDS = {
    "check": "Say what is wrong, why, and what to type next.",
    "explain": "Say what an error text or a log means.",
    "collect": "Record the evidence, to check it elsewhere.",
    "facts": "Show the facts that rules see.",
    "bench": "Measure what the GPUs give.",
    "xid": "Explain an Xid of the kernel log.",
    "demo": "Show reports on sample evidence.",
    "rules": "List, show, lint and test rules.",
}


def application(arguments: list[str]) -> typer.Typer:
    """The command line. Where the arguments begin with a command, only that one is loaded and built: it is a tenth of a run."""
    app = typer.Typer(
        name="gpudoctor",
        help="Says why a GPU machine, container or job does not work, proves it, and gives the next command to type.",
        epilog=_EPILOG,
        add_completion=False,
        no_args_is_help=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(_start)
    for name in arguments[:1] if arguments[:1] and arguments[0] in _COMMANDS else _COMMANDS:
        module = importlib.import_module(f"gpudoctor.cli.{name}")
        if name == "rules":
            app.add_typer(module.app, name=name)
        else:
            app.command(name, short_help=_COMMANDS[name])(getattr(module, name))
    return app


def _start(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", "-V", help="Show the version and exit."),
) -> None:
    if version:
        from gpudoctor import __version__

        print(f"gpudoctor {__version__}")
        raise typer.Exit(exit_codes.PASSED)
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(exit_codes.UNUSABLE)


_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
# BadParameter's base: the class of every wrong usage. Typer has its own copy of click or uses click's, by version.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def run(arguments: list[str]) -> int:
    """Runs one command. Never raises and never shows a traceback."""
    try:
        _prepare_streams()
        code = application(arguments)(args=arguments, prog_name="gpudoctor", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else exit_codes.PASSED
    except GpudoctorError as error:
        return _told(error)
    except _UsageError as error:
        return _told(_usage(error))
    except (KeyboardInterrupt, typer.Abort):
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


def _prepare_streams() -> None:
    """Output never fails for an odd locale or a closed stream."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: `>&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _usage(error: Exception) -> GpudoctorError:
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "gpudoctor"
    return GpudoctorError(message.rstrip("."), f"`{command} --help` shows how it is used.")


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
