"""Running the program as users do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Gpudoctor = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def gpudoctor() -> Gpudoctor:
    """`gpudoctor(*arguments, input=..., env=...)` in a process of its own, output captured."""

    def run(
        *arguments: str | Path,
        input: str | bytes | None = "",
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        data = input.encode() if isinstance(input, str) else input
        done = subprocess.run(
            [sys.executable, "-m", "gpudoctor", *map(str, arguments)],
            input=data,
            capture_output=True,
            timeout=120,
            env={**os.environ, **(env or {})},
            cwd=cwd,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        )

    return run
