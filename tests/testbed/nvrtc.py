"""NVRTC itself, through ctypes, for a generation that is not the one CuPy loads."""

from __future__ import annotations

import ctypes
from pathlib import Path


class Nvrtc:
    """A libnvrtc. Compiles without a GPU."""

    def __init__(self, library: Path) -> None:
        for builtins in library.parent.glob("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(str(library))

    def _text(self, size_of: str, get: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        getattr(self._library, size_of)(program, ctypes.byref(size))
        content = ctypes.create_string_buffer(size.value)
        getattr(self._library, get)(program, content)
        return content.raw

    def compile(self, source: str, name: str, options: tuple[str, ...]) -> tuple[int, str, bytes]:
        """NVRTC's code, its log, and the machine code."""
        program = ctypes.c_void_p()
        code = self._library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
        assert code == 0
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        code = self._library.nvrtcCompileProgram(program, len(options), words)
        log = self._text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog", program).decode()
        binary = b"" if code else self._text("nvrtcGetCUBINSize", "nvrtcGetCUBIN", program)
        self._library.nvrtcDestroyProgram(ctypes.byref(program))
        return code, log, binary


def find(folder: Path) -> Path | None:
    """The library in a folder that a wheel was unpacked into."""
    return next((path for path in sorted(folder.rglob("libnvrtc.so.*")) if "alt" not in path.name), None)
