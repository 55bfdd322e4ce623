"""One matrix product of the gemm test: its matrices, its result, and whether that is right."""

from __future__ import annotations

import math
import struct

from gpudoctor.workers.bench_lines import Device, Fault, Figure, say
from gpudoctor.workers.cublas_gemm import Cublas, Precision
from gpudoctor.workers.cuda_device import Cuda, Kernels, Pointer
from gpudoctor.workers.wrong_data import Report, WrongData

THREADS = 256
SEED_LEFT, SEED_RIGHT = 0x1B873593, 0x4CF5AD43
SAMPLED = 8  # rows, and as many columns
# Mean square of the matrices' elements, odd sixteenths up to 15.
_MEAN_SQUARE = 85 / 256


class Product:
    """One product in one precision on the current device: its matrices, filled, and room for results."""

    def __init__(
        self,
        cuda: Cuda,
        cublas: Cublas,
        kernels: Kernels,
        device: Device,
        precision: Precision,
        n: int,
        block: Pointer,
    ) -> None:
        self.cuda, self.cublas, self.kernels, self.precision, self.n = cuda, cublas, kernels, precision, n
        self.device = device.ordinal
        self.blocks = 16 * (device.multiprocessors or 16)
        self.size = n * n * precision.result_bytes
        # A quarter of the block each: it has room for elements of four bytes.
        self.left, self.right, self.result, self.again = (block + index * 4 * n * n for index in range(4))
        cublas.prepare(precision, n)
        for pointer, seed in ((self.left, SEED_LEFT), (self.right, SEED_RIGHT)):
            kernels.launch("gemm_fill", self.blocks, THREADS, pointer, n, precision.type, seed)
        # All ones are not a number in each of the formats: what is not written is found.
        cuda.fill(self.result, 0xFF, self.size)

    def run(self, to: Pointer) -> None:
        self.cublas.multiply(self.precision, self.n, self.left, self.right, to)

    def check(self, report: Report) -> None:
        """Prints a fault when sampled rows and columns of the result are not right."""
        relative, absolute = tolerances(self.precision, self.n)
        count = min(SAMPLED, self.n)
        step = self.n // count
        for columns in (0, 1):
            first = (step - 1) * columns  # other places for columns than for rows
            places = (columns, first, step, count, as_bits(relative), as_bits(absolute), SEED_LEFT, SEED_RIGHT)
            self.kernels.launch(
                "gemm_check",
                self.blocks,
                THREADS,
                self.result,
                self.precision.result_type,
                self.n,
                *places,
                report.pointer,
            )
        wrong = report.read()
        if wrong is not None:
            say(wrong_elements(wrong, self.precision.name, self.n, 2 * count * self.n, self.device))

    def compare(self, report: Report) -> None:
        """Launches the comparison of `again` with the first result."""
        self.kernels.launch(
            "gemm_compare", self.blocks, THREADS, self.result, self.again, self.size // 16, report.pointer
        )

    def tflops(self, milliseconds: float) -> float:
        return round(2 * self.n**3 / milliseconds / 1e9, 2)


def tolerances(precision: Precision, n: int) -> tuple[float, float]:
    """How far an element may be off: relative to its true value, and at all.

    The true result and all sums on the way fit into single precision, so a single-precision sum makes no error here; room is
    left for eight roundings of a sum of magnitudes. A result in half precision is rounded once, or, where the sum is
    split, a few times at the size of partial sums, which is a few times their standard deviation.
    """
    sum_of_magnitudes = 0.25 * n
    deviation = math.sqrt(n) * _MEAN_SQUARE
    absolute = (8 * 2.0**-24 + precision.loose) * sum_of_magnitudes
    if precision.result_bytes < 4:
        absolute += 16 * precision.unit * deviation
    return 2 * precision.unit, absolute


def as_bits(value: float) -> int:
    """A double as the number that a kernel takes."""
    return int.from_bytes(struct.pack("<d", value), "little")


def as_float(bits: int) -> float:
    value: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    return value


def wrong_elements(wrong: WrongData, name: str, n: int, checked: int, device: int) -> Fault:
    text = f"{name} matrix product: {wrong.count} of {checked} elements checked are wrong"
    expected = got = None
    if wrong.records:
        record = wrong.records[0]
        expected, got = (f"{as_float(bits):.8g}" for bits in (record.expected, record.got))
        text += f", element ({record.index % n}, {record.index // n}) of {n} x {n} is {got} instead of {expected}"
    return Fault(
        kind="wrong_result", text=text, device=device, metric=name, count=wrong.count, expected=expected, got=got
    )


def say_tflops(product: Product, median_ms: float, repeats: int, spread: float) -> None:
    say(
        Figure(
            metric=product.precision.name,
            value=product.tflops(median_ms),
            unit="TFLOPS",
            device=product.device,
            size_bytes=product.size,
            repeats=repeats,
            spread=round(spread, 4),
        )
    )
