import ctypes
import time

from cupy_backends.cuda.api import runtime
from cupy_backends.cuda.libs import nvrtc


class Function:
    def __init__(self, library, name):
        self.address = ctypes.cast(getattr(library, name), ctypes.c_void_p)
        self.launch = library.shim_launch
        self.together = nvrtc.together(library._name, name)

    def __call__(self, grid, block, args, shared_mem=0, stream=None, enable_cooperative_groups=False):
        assert (len(grid), len(block), shared_mem) == (1, 1, 0)
        assert 0 < grid[0] < 2**31
        assert 0 < block[0] <= 1024
        assert all(type(argument) is int and -(2**63) <= argument < 2**63 for argument in args)
        values = (ctypes.c_uint64 * 12)(*(argument & (2**64 - 1) for argument in args))
        runtime.check("launchKernel")
        self.launch(
            self.address, ctypes.c_uint(grid[0]), ctypes.c_uint(block[0]), ctypes.c_uint(self.together), values
        )
        time.sleep(runtime.SCENARIO.get("slow_ms", 0) / 1000)
        runtime.launches += 1
        runtime.apply_faults()


class Module:
    def __init__(self):
        self.library = None

    def load(self, cubin):
        runtime.check("moduleLoad")
        self.library = ctypes.CDLL(cubin.decode().rstrip("\0"))

    def get_function(self, name):
        return Function(self.library, name)
