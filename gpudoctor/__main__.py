"""`gpudoctor`, and `python -m gpudoctor`. Asking for the version loads nothing else."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

# A short run makes many lasting objects and little garbage: looking for cycles all the time is a tenth of its time.
GC_THRESHOLD = (200_000, 20, 20)


def program() -> NoReturn:
    """As `main`, and ends the process at once: freeing a short run's memory piece by piece is a tenth of its time."""
    try:
        code = main()
    except OSError:  # not even the error could be written: standard error is full, or its reader went away
        code = 2
    if commands := sys.modules.get("gpudoctor.sources.process"):
        commands.end_all()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, full or absent: `main` has said so
            stream.flush()
    os._exit(code)


def main() -> int:
    """Runs the command line; the exit code is docs/exit-codes.md's."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from gpudoctor import __version__

        print(f"gpudoctor {__version__}")
        return 0
    import gc

    gc.set_threshold(*GC_THRESHOLD)

    from gpudoctor.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    program()
