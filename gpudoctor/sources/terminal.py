"""Terminal control codes in captured text."""

from __future__ import annotations

import re

# Terminal codes, as `script` and colouring programs leave them in files.
TERMINAL_CODES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_()#][0-9A-Za-z]?|\x9b[0-?]*[ -/]*[@-~]"
)
