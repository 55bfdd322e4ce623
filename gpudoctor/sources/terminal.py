"""Terminal control codes in captured text."""

from __future__ import annotations

from gpudoctor.lazy import Lazy

# Terminal codes, as `script` and colouring programs leave them in files.
TERMINAL_CODES = Lazy(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_()#][0-9A-Za-z]?|\x9b[0-?]*[ -/]*[@-~]",
    needs=("\x1b", "\x9b"),
)
