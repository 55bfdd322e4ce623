"""`gpudoctor`, and `python -m gpudoctor`. Asking for the version loads nothing else."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command line; the exit code is docs/exit-codes.md's."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from gpudoctor import __version__

        print(f"gpudoctor {__version__}")
        return 0
    import gc

    # A short run makes many lasting objects and little garbage: looking for cycles all the time is a tenth of its time.
    gc.set_threshold(200_000, 20, 20)

    from gpudoctor.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
