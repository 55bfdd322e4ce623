"""Matrix products by cuBLAS in several precisions: TFLOPS, and whether the results are right.

`--burn` keeps multiplying until the time is up, and compares every result with the first one, bit by bit: cuBLAS gives the
same bits for the same product on the same GPU. The first one is checked against the true values.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import ExitStack
from functools import partial
from typing import Any

from gpudoctor.workers.bench_lines import Device, say
from gpudoctor.workers.bench_main import Work, main_of
from gpudoctor.workers.cublas_gemm import FP8, PRECISIONS, Precision, cublas_on
from gpudoctor.workers.cuda_device import measure
from gpudoctor.workers.cuda_errors import WorkerError, is_out_of_memory
from gpudoctor.workers.gemm_product import Product, say_tflops
from gpudoctor.workers.wrong_data import RECORDS, Report, WrongData, fault_of, report_on

SMALLEST = 256
BURN_WINDOW_S = 0.5


def size_for(device: Device, room_bytes: int, copies_of_4: int, wanted: int | None) -> int:
    """Rows of the matrices: enough to fill the GPU, and `copies_of_4` matrices of 4-byte elements fit into the room."""
    multiprocessors = device.multiprocessors or 16
    n = wanted or (8192 if multiprocessors >= 60 else 4096 if multiprocessors >= 20 else 2048)
    while n > SMALLEST and copies_of_4 * 4 * n * n > room_bytes:
        n //= 2
    return n


def missing(precision: Precision, device: Device) -> str | None:
    """Why a device has not got a precision, or None."""
    capability = float(device.compute_capability or 0) * 10
    if round(capability) < precision.capability:
        return f"{precision.name}: needs compute capability {precision.capability / 10}, this is {device.compute_capability}"
    return None


def sample_seconds(work: Work, seconds: float) -> float:
    return min(seconds, 0.5 if work.arguments.quick else 3.0)


def test_precision(work: Work, product: Product, report: Report, seconds: float) -> None:
    """Prints the figure of one precision, and a fault when its result is wrong."""
    repeats = 5 if work.arguments.quick else 15
    budget = sample_seconds(work, seconds)
    timing = measure(
        work.cuda,
        lambda: product.run(product.result),
        repeats=repeats,
        at_least_ms=min(20.0, budget * 100),
        budget_s=budget,
    )
    say_tflops(product, timing.median_ms, timing.repeats, timing.spread)
    product.check(report)


class Burn:
    """Products of one precision until the time is up."""

    def __init__(self, product: Product, report: Report) -> None:
        self.product, self.report = product, report
        self.windows_ms: list[float] = []  # of one product, by window
        self.products = 0
        self.wrong: WrongData | None = None

    def window(self, count: int) -> None:
        """Launches `count` products, each followed by its comparison, and waits for them. Only products are timed."""
        event: Any = self.product.cuda.cupy.cuda.Event
        pairs = []
        for _ in range(count):
            begin, end = event(), event()
            begin.record()
            self.product.run(self.product.again)
            end.record()
            self.product.compare(self.report)
            pairs.append((begin, end))
        pairs[-1][1].synchronize()
        elapsed = self.product.cuda.cupy.cuda.get_elapsed_time
        wrong = self.report.read()
        self.products += count
        self.windows_ms.append(sum(float(elapsed(begin, end)) for begin, end in pairs) / count)
        if wrong is not None:
            old = self.wrong
            records = sorted((old.records if old else []) + wrong.records)[:RECORDS]
            count_before, first, mask = (old.count, old.first, old.mask) if old else (0, wrong.first, 0)
            self.wrong = WrongData(count_before + wrong.count, min(first, wrong.first), mask | wrong.mask, records)

    def finish(self) -> None:
        """Prints what there is, also when the burn was cut short."""
        if self.windows_ms:
            median = statistics.median(self.windows_ms)
            spread = (max(self.windows_ms) - min(self.windows_ms)) / median if median > 0 else 0.0
            say_tflops(self.product, median, self.products, spread)
        if self.wrong is not None:
            what = f"{self.product.precision.name} burn, {self.products} products compared with the first"
            name, device = self.product.precision.name, self.product.device
            say(fault_of(self.wrong, kind="wrong_result", what=what, metric=name, device=device, word_bytes=4))


def burn_precision(work: Work, product: Product, report: Report, seconds: float, done: float, part: float) -> None:
    """Burns for `seconds`; `part` is what that is of the whole plan."""
    product.run(product.result)
    product.check(report)
    burn = Burn(product, report)
    begun = time.monotonic()
    count, spent = 1, 0.0
    try:
        while spent < seconds and work.left() > 0:
            work.progress(done + part * spent / seconds, f"burning in {product.precision.name}", product.device)
            burn.window(count)
            now = time.monotonic() - begun
            each_s = max((now - spent) / count, 1e-6)
            count = max(1, min(500, int(min(BURN_WINDOW_S, (seconds - now) / 2) / each_s)))
            spent = now
    finally:
        burn.finish()
    work.note("other", f"{burn.products} {product.precision.name} products compared with the first", product.device)


def plan_for(work: Work, device: Device) -> list[Precision]:
    """The precisions to test, all but those that the device has not got, which are noted."""
    wanted = work.arguments.precision or (["fp16", "fp32"] if work.arguments.burn else [p.name for p in PRECISIONS])
    plan = []
    for precision in sorted((p for p in PRECISIONS if p.name in wanted), key=lambda p: wanted.index(p.name)):
        reason = missing(precision, device)
        if reason is None:
            plan.append(precision)
        else:
            work.note("skipped", reason, device.ordinal)
    return plan


def test_device(work: Work, device: Device, seconds: float, done: float) -> None:
    """Raises CUDA's, NVRTC's and cuBLAS's errors."""
    cuda, ordinal = work.cuda, device.ordinal
    kernels = cuda.compile("gemm.cu", device)
    plan = plan_for(work, device)
    with ExitStack() as stack:
        report = stack.enter_context(report_on(cuda))
        cublas = stack.enter_context(cublas_on(cuda))
        most = min(cuda.free_bytes() * 3 // 5, work.arguments.max_bytes or sys.maxsize)
        usual = size_for(device, sys.maxsize, 4, work.arguments.size)
        n = size_for(device, most, 4, work.arguments.size)
        while True:
            try:
                block = stack.enter_context(cuda.memory(16 * n * n))
                break
            except Exception as error:
                if not is_out_of_memory(error) or n <= SMALLEST:
                    raise
                n //= 2
        if n < usual:
            work.note(
                "shrunk", f"matrices of {n} rows instead of {usual}: no more memory is free or allowed", ordinal
            )
        begun = time.monotonic()
        for index, precision in enumerate(plan):
            if not work.arguments.burn:  # whose plan is to use up the time
                work.check_time()
            part = 1 / len(plan) / len(work.devices)
            work.progress(done + index * part, f"{precision.name}, {n} x {n}", ordinal)
            share = max(0.0, seconds - (time.monotonic() - begun)) / (len(plan) - index)
            try:
                product = Product(cuda, cublas, kernels, device, precision, n, block)
            except WorkerError as error:
                if precision.type != FP8:
                    raise
                work.note("skipped", f"fp8: {error.line.message}", ordinal)
                continue
            if work.arguments.burn:
                burn_precision(work, product, report, share, done + index * part, part)
            else:
                test_precision(work, product, report, share * 0.7)
        cuda.synchronize()


def run(work: Work) -> None:
    work.test_each_device("the matrix product test", "multiplying matrices", partial(test_device, work))
    work.progress(1.0, "done")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument(
        "--burn", action="store_true", help="keep going for all of --seconds, and compare every result"
    )
    parser.add_argument("--precision", action="append", choices=[p.name for p in PRECISIONS], help="all by default")
    parser.add_argument("--size", type=int, help="rows of the matrices (a multiple of 16)")
    parser.add_argument("--max-bytes", type=int, help="device memory to use at most")


def main() -> None:
    main_of("burn" if "--burn" in sys.argv[1:] else "gemm", run, add_arguments)


if __name__ == "__main__":
    main()
