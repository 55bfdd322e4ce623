import time

from cupy_backends.cuda.api import runtime as _runtime

from cupy.cuda import function as function


class Event:
    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.seconds = None

    def record(self, stream=None):
        self.seconds = time.perf_counter()

    def synchronize(self):
        _runtime.check("eventSynchronize")
        assert self.seconds is not None


def get_elapsed_time(start_event, end_event):
    return max(end_event.seconds - start_event.seconds, 1e-6) * 1000
