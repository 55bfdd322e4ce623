"""Finds a Python binding of NVML that works, and asks the library through it; what an old binding lacks is called directly."""

from __future__ import annotations

import ctypes
import importlib
from types import ModuleType
from typing import Any, NamedTuple

LIBRARY = "libnvidia-ml.so.1"
FUNCTION_NOT_FOUND = 13
UNKNOWN = 999
# Without these a module called `pynvml` is not NVML's binding, or not a usable one.
REQUIRED = (
    "NVMLError",
    "nvmlInit",
    "nvmlSystemGetDriverVersion",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetPciInfo",
)
# The maintained binding is nvidia-ml-py, whose module is `pynvml`. The second is taken when that one is shadowed or broken.
CANDIDATES = (("pynvml", "pynvml"), ("py3nvml", "py3nvml.py3nvml"))


class NvmlCode(Exception):
    """NVML answered with a return code other than success."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Binding(NamedTuple):
    """A binding's module, its name, where it lies, and why the ones before it were not taken."""

    module: ModuleType
    name: str
    path: str | None
    problems: list[str]


def choose() -> tuple[Binding | None, list[str]]:
    """The first binding that has what is needed, and what was wrong with those before it."""
    problems: list[str] = []
    for name, module_name in CANDIDATES:
        try:
            module = importlib.import_module(module_name)
        except Exception as error:  # a module of the same name may do anything on import
            problems.append(f"{name}: {type(error).__name__}: {error}"[:300])
            continue
        path = getattr(module, "__file__", None)
        missing = [symbol for symbol in REQUIRED if not hasattr(module, symbol)]
        if not missing:
            return Binding(module, name, path, problems), problems
        problems.append(f"{name}: {path or 'a namespace'} is not NVML's binding: it lacks {', '.join(missing)}"[:300])
    return None, problems


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t. The value is a union of 8 bytes; which member holds depends on `value_type`."""

    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("value_type", ctypes.c_uint),
        ("code", ctypes.c_uint),
        ("value", ctypes.c_ulonglong),
    )

    def number(self) -> float | int:
        raw = ctypes.c_ulonglong(self.value)
        # nvmlValueType_t: 0 double, 1 unsigned int, 2 unsigned long, 3 unsigned long long, 4 long long, 5 int, 6 unsigned short
        kinds = (ctypes.c_double, ctypes.c_uint, ctypes.c_ulong, ctypes.c_ulonglong, ctypes.c_longlong, ctypes.c_int)
        kind: Any = kinds[self.value_type] if self.value_type < len(kinds) else ctypes.c_ushort
        number: float | int = ctypes.cast(ctypes.byref(raw), ctypes.POINTER(kind)).contents.value
        return number


class Library:
    """NVML after a successful init. Each method raises NvmlCode where NVML answers with an error."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.direct = ctypes.CDLL(LIBRARY)

    def ask(self, name: str, *arguments: Any) -> Any:
        """Calls a function of the binding."""
        function = getattr(self.module, name, None)
        if function is None:
            raise NvmlCode(FUNCTION_NOT_FOUND)
        try:
            return function(*arguments)
        except self.module.NVMLError as error:
            raise NvmlCode(int(getattr(error, "value", UNKNOWN))) from None
        except Exception as error:
            if type(error).__name__ == "NVMLLibraryMismatchError":  # nvidia-ml-py's own: the library is older
                raise NvmlCode(FUNCTION_NOT_FOUND) from None
            raise

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the library itself."""
        function = getattr(self.direct, name, None)
        if function is None:
            raise NvmlCode(FUNCTION_NOT_FOUND)
        code = function(*arguments)
        if code:
            raise NvmlCode(code)

    def numbers(self, name: str, *inputs: Any, count: int, wide: bool = False) -> tuple[int, ...]:
        """The `count` output numbers of a getter (`wide`: 64 bits)."""
        if hasattr(self.module, name):
            value = self.ask(name, *inputs)
            return tuple(value) if isinstance(value, list | tuple) else (value,)
        kind: Any = ctypes.c_ulonglong if wide else ctypes.c_uint
        outputs = [kind() for _ in range(count)]
        self.call(name, *inputs, *(ctypes.byref(output) for output in outputs))
        return tuple(output.value for output in outputs)

    def number(self, name: str, *inputs: Any, wide: bool = False) -> int:
        return self.numbers(name, *inputs, count=1, wide=wide)[0]

    def text(self, name: str, *inputs: Any, sized: bool = True) -> str:
        """A getter's string. `sized`: the C function takes the buffer's size."""
        if hasattr(self.module, name):
            return as_text(self.ask(name, *inputs))
        buffer = ctypes.create_string_buffer(128)
        self.call(name, *inputs, buffer, *((ctypes.c_uint(128),) if sized else ()))
        return as_text(buffer.value)

    def fields(self, handle: Any, wanted: list[tuple[int, int]]) -> list[tuple[int, float | int]]:
        """Return code and value of each (field id, scope id): one call, but every field fails on its own."""
        values = (FieldValue * len(wanted))()
        for value, (field, scope) in zip(values, wanted, strict=True):
            value.field, value.scope = field, scope
        self.call("nvmlDeviceGetFieldValues", handle, ctypes.c_int(len(wanted)), values)
        return [(value.code, value.number()) for value in values]


def as_text(value: Any) -> str:
    """A string of a binding, old ones of which answer with bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
