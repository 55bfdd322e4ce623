import ctypes

from cupy_backends.cuda.api import runtime


class Module:
    def load(self, binary: bytes) -> None:
        runtime.state.context()
        self._library = ctypes.CDLL(binary.decode().rstrip("\0"))
        self._device = runtime.getDevice()

    def get_function(self, name: str) -> "Function":
        return Function(self._library, name, self._device)


class Function:
    def __init__(self, library: ctypes.CDLL, name: str, device: int) -> None:
        self._kernel = ctypes.cast(getattr(library, name), ctypes.c_void_p)
        self._launch, self._device = library.shim_launch, device

    def __call__(self, grid: tuple[int], block: tuple[int], args: tuple[int, ...], shared_mem: int = 0) -> None:
        if runtime.getDevice() != self._device:  # a module belongs to the context that loaded it
            raise runtime.CUDARuntimeError(400)
        assert all(type(argument) is int for argument in args)
        for argument in args:
            runtime.state.check_access(argument)
        runtime.state.happen("kernel", self._device)
        values = (ctypes.c_uint64 * 12)(*(argument % 2**64 for argument in args))
        self._launch(self._kernel, ctypes.c_uint(grid[0]), ctypes.c_uint(block[0]), ctypes.c_uint(0), values)
