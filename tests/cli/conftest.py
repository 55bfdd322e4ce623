"""Running the program as users do."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

import pytest

from gpudoctor.cli import main

Gpudoctor = Callable[..., "CompletedProcess[str]"]


@pytest.fixture(scope="session")
def gpudoctor() -> Gpudoctor:
    """`gpudoctor(*arguments, input=..., env=..., cwd=...)`: the whole program in this process, its streams captured."""

    def run(
        *arguments: str | Path, input: str | bytes = "", env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> CompletedProcess[str]:
        data = input.encode() if isinstance(input, str) else input
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        argv = [str(argument) for argument in arguments]
        with (
            mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.dict(os.environ, env or {}),
            contextlib.chdir(cwd or Path.cwd()),
        ):
            code = main.run(argv)
        for stream in (out, err):
            stream.flush()
        return CompletedProcess(argv, code, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]

    return run
