"""Runs a command in mount and PID namespaces of its own: what it mounts or leaves running is gone when it ends."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# $1 is the number of binds; then pairs of source and target; then the command.
_ENTER = """
count=$1; shift
while [ "$count" -gt 0 ]; do
    mount --rbind "$1" "$2" || exit 125
    shift 2; count=$((count - 1))
done
exec "$@"
"""


def command(argv: Sequence[str], binds: Mapping[str | Path, str | Path]) -> list[str]:
    """The command line that runs `argv` with each target of `binds` (source: target, which must exist) replaced.

    Needs root. Binding the fake libnvidia-ml.so.1 over the genuine one reaches programs that ignore LD_LIBRARY_PATH.
    """
    pairs = [str(part) for pair in binds.items() for part in pair]
    return ["unshare", "-m", "-p", "-f", "--mount-proc", "sh", "-c", _ENTER, "sh", str(len(binds)), *pairs, *argv]


def run(
    argv: Sequence[str],
    binds: Mapping[str | Path, str | Path] | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Raises TimeoutExpired."""
    environment = {**os.environ, **(env or {}), "LC_ALL": "C"}
    line = command(argv, binds or {})
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
