"""The kernels: NVRTC compiles them for every architecture, and their bodies, run on the CPU, do what NumPy does."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.workers import cuda_device
from gpudoctor.workers.bench_memory import SHAPES, SHAPES_READ
from gpudoctor.workers.bench_memtest import ADDRESS, CONSTANT, RANDOM, WALKING, unmix
from gpudoctor.workers.cublas_gemm import BF16, FP8, FP16, FP32, PRECISIONS
from gpudoctor.workers.cuda_device import compile_for, kernel_source
from gpudoctor.workers.cuda_errors import WorkerError
from gpudoctor.workers.gemm_product import as_bits, as_float, tolerances
from tests.testbed import cuda_on_cpu, nvrtc

FILES = sorted(path.name for path in (Path(cuda_device.__file__).parent / "kernels").glob("*.cu"))
VARIANTS = sorted({(shape.unroll, shape.streaming) for shape in (*SHAPES, *SHAPES_READ)})
ELF = b"\x7fELF"
needs_nvrtc = pytest.mark.real("python:cupy", "python:nvidia.cuda_nvrtc")

# --- compiled by NVRTC, without a GPU ---


@needs_nvrtc
@pytest.mark.parametrize("capability", ["6.0", "6.1", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0"])
def test_every_kernel_compiles_with_cuda_12(capability: str) -> None:
    for name in FILES:
        assert compile_for(kernel_source(name), capability, name)[:4] == ELF


@needs_nvrtc
@pytest.mark.parametrize(("unroll", "streaming"), VARIANTS)
def test_variants_compile(unroll: int, streaming: bool) -> None:
    options = (f"-DUNROLL={unroll}", f"-DSTREAMING={int(streaming)}")
    assert compile_for(kernel_source("memory.cu"), "9.0", "memory.cu", options)[:4] == ELF


@pytest.mark.parametrize("arch", [75, 80, 86, 89, 90, 100, 103, 120, 121])
def test_every_kernel_compiles_with_cuda_13(arch: int) -> None:
    folder = os.environ.get("GPUDOCTOR_NVRTC13")
    library = nvrtc.find(Path(folder)) if folder else None
    if library is None:
        pytest.skip("GPUDOCTOR_NVRTC13 names no folder with a libnvrtc of CUDA 13")
    compiler = nvrtc.Nvrtc(library)
    for name in FILES:
        options = (f"-arch=sm_{arch}", "-std=c++17", "-default-device")
        code, log, binary = compiler.compile(kernel_source(name), name, options)
        assert code == 0, log
        assert binary[:4] == ELF


@needs_nvrtc
def test_a_device_newer_than_nvrtc_gets_ptx() -> None:
    assert b".version" in compile_for(kernel_source("memory.cu"), "99.0", "memory.cu")


@needs_nvrtc
@pytest.mark.parametrize(
    ("source", "capability", "words"),
    [
        ("__global__ void f() {}", "3.5", "no longer compiles for compute capability 3.5"),
        ("__global__ void f() { nonsense; }", "8.0", "nonsense"),
        ("", "", "no longer compiles"),
    ],
)
def test_what_does_not_compile_is_said_in_nvrtcs_words(source: str, capability: str, words: str) -> None:
    with pytest.raises(WorkerError) as caught:
        compile_for(source, capability, "f.cu")
    assert caught.value.line.api == "nvrtc"
    assert words in caught.value.line.message
    assert (caught.value.line.name or "").startswith("NVRTC_ERROR_")
    assert (caught.value.line.where or "").startswith("compiling f.cu")


# --- run on the CPU ---

THREADS = 64
SEED, SEED_B = 0x9E3779B9, 0x2545F491
# Whole tiles and a cut one; fewer vectors than one tile; one pass and striding.
SIZES = [(1000, 3), (1000, 4), (7, 1), (256, 2)]
shapes = pytest.mark.parametrize(("vectors", "blocks"), SIZES)
variants = pytest.mark.parametrize("options", [(), ("-DUNROLL=1", "-DSTREAMING=1")], ids=["4", "1-streaming"])


@pytest.fixture
def np() -> Any:
    return pytest.importorskip("numpy")


def aligned(np: Any, words: int) -> Any:
    """32-bit words at a 16-byte boundary, with a guard of four words behind, all marked."""
    raw = np.full(words + 8, 0xDEADBEEF, dtype=np.uint32)
    skip = (-raw.ctypes.data) % 16 // 4
    return raw[skip : skip + words + 4]


def bits(np: Any, words: int, seed: int = SEED) -> Any:
    return (np.arange(words, dtype=np.uint64) * 2654435761 + seed).astype(np.uint32)


def floats(np: Any, words: int, seed: int) -> Any:
    return (1 + (bits(np, words, seed) >> 16)).astype(np.float32)


def empty_report(records: int = 8) -> Any:
    report = (ctypes.c_uint64 * (6 + 3 * records))()
    report[1], report[4] = 2**64 - 1, records
    return report


def guarded(array: Any) -> bool:
    return bool((array[-4:] == 0xDEADBEEF).all())


@variants
@shapes
def test_bandwidth_kernels_do_what_they_say(np: Any, vectors: int, blocks: int, options: tuple[str, ...]) -> None:
    memory, check = cuda_on_cpu.kernels("memory.cu", *options), cuda_on_cpu.kernels("memory_check.cu")
    words = 4 * vectors
    a, b, c = (aligned(np, words) for _ in range(3))
    memory.launch("memory_write", blocks, THREADS, a, vectors, SEED)
    assert (a[:words] == bits(np, words)).all()
    total, expected = ctypes.c_uint64(), ctypes.c_uint64()
    memory.launch("memory_read", blocks, THREADS, a, vectors, total)
    check.launch("expected_sum", blocks, THREADS, vectors, SEED, expected)
    assert total.value % 2**32 == expected.value % 2**32 == int(bits(np, words).sum(dtype=np.uint64)) % 2**32
    memory.launch("memory_copy", blocks, THREADS, a, c, vectors)
    assert (c[:words] == a[:words]).all()
    check.launch("fill_floats", blocks, THREADS, a, vectors, SEED)
    check.launch("fill_floats", blocks, THREADS, b, vectors, SEED_B)
    assert (b[:words].view(np.float32) == floats(np, words, SEED_B)).all()
    memory.launch("memory_scale", blocks, THREADS, b, c, vectors, 3)
    assert (c[:words].view(np.float32) == 3 * floats(np, words, SEED_B)).all()
    report = empty_report()
    check.launch("check_floats", blocks, THREADS, c, vectors, 0, 0, 3, SEED_B, report)
    memory.launch("memory_triad", blocks, THREADS, a, b, c, vectors, 3)
    assert (c[:words].view(np.float32) == floats(np, words, SEED) + 3 * floats(np, words, SEED_B)).all()
    check.launch("check_floats", blocks, THREADS, c, vectors, 1, SEED, 3, SEED_B, report)
    assert report[0] == 0
    assert guarded(a)
    assert guarded(b)
    assert guarded(c)


@shapes
def test_wrong_words_are_counted_and_recorded(np: Any, vectors: int, blocks: int) -> None:
    check = cuda_on_cpu.kernels("memory_check.cu")
    data = aligned(np, 4 * vectors)
    data[:-4] = bits(np, 4 * vectors)
    report = empty_report(records=2)
    check.launch("check_bits", blocks, THREADS, data, vectors, SEED, report)
    assert report[0] == 0
    data[[5, 6, 4 * vectors - 1]] ^= np.array([1 << 31, 1, 6], dtype=np.uint32)
    check.launch("check_bits", blocks, THREADS, data, vectors, SEED, report)
    assert (report[0], report[1], report[2]) == (3, 5, 1 << 31 | 7)
    assert report[3] >= 2
    for place in (6, 9):  # more wrong words than records
        index, expected, got = report[place : place + 3]
        assert index in (5, 6, 4 * vectors - 1)
        assert expected == int(bits(np, 4 * vectors)[index])
        assert got == int(data[index])


def mix(np: Any, z: Any) -> Any:
    z = (z ^ z >> 30) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> 27) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> 31


def pattern(np: Any, kind: int, index: Any, seed: int) -> Any:
    if kind == CONSTANT:
        return np.full_like(index, seed)
    if kind == WALKING:
        return np.uint64(0x100000001) << (index + np.uint64(seed) & np.uint64(31))
    return mix(np, index + np.uint64(seed if kind == RANDOM else 0))


@pytest.mark.parametrize("kind", [CONSTANT, WALKING, ADDRESS, RANDOM])
@pytest.mark.parametrize(("vectors", "blocks"), [(600, 2), (3, 1)])
def test_memory_test_patterns(np: Any, kind: int, vectors: int, blocks: int) -> None:
    kernels = cuda_on_cpu.kernels("memtest.cu")
    base, seed, words = 2**40 + 10, 0x5555555555555555, 2 * vectors
    memory = aligned(np, 2 * words)
    data = memory[: 2 * words].view(np.uint64)
    index = np.arange(words, dtype=np.uint64) + np.uint64(base)
    report = empty_report(records=600)
    for invert in (0, 2**64 - 1):
        true = pattern(np, kind, index, seed) ^ np.uint64(invert)
        kernels.launch("memtest_fill", blocks, THREADS, data, vectors, base, kind, seed, invert)
        assert (data == true).all()
        for backward in (0, 1):
            kernels.launch(
                "memtest_invert", blocks, THREADS, data, vectors, base, kind, seed, invert, report, backward
            )
            assert (data == ~true).all()
            kernels.launch(
                "memtest_check", blocks, THREADS, data, vectors, base, kind, seed, invert ^ 2**64 - 1, report
            )
            assert report[0] == 0
            data[:] = true
        for place in (0, words - 1):
            data[place] ^= np.uint64(1 << 33)
            kernels.launch("memtest_check", blocks, THREADS, data, vectors, base, kind, seed, invert, report)
            assert (report[0], report[1], report[2]) == (1, base + place, 1 << 33)
            assert list(report[6:9]) == [base + place, int(true[place]), int(data[place])]
            kernels.launch(
                "memtest_invert", blocks, THREADS, data, vectors, base, kind, seed, invert, report, place == 0
            )
            assert report[0] == 2
            assert (data == ~true).all()
            data[:] = true
            report[0], report[1], report[2], report[3] = 0, 2**64 - 1, 0, 0
    assert guarded(memory)


def test_unmix_is_the_inverse(np: Any) -> None:
    values = [0, 1, 2**63, 2**64 - 1, 123456789]
    mixed = mix(np, np.array(values, dtype=np.uint64))
    assert [unmix(int(value)) for value in mixed] == values


def decoded(np: Any, kind: int, raw: Any) -> Any:
    if kind == BF16:
        return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return raw.view(np.float16 if kind == FP16 else np.float32).astype(np.float64)


@pytest.mark.parametrize("kind", [FP32, FP16, BF16])
def test_matrices_and_their_product(np: Any, kind: int) -> None:
    kernels = cuda_on_cpu.kernels("gemm.cu")
    n, blocks = 64, 2
    word = np.uint32 if kind == FP32 else np.uint16
    left, right = (np.zeros((n, n), dtype=word) for _ in range(2))
    for matrix, seed in ((left, 11), (right, 22)):
        kernels.launch("gemm_fill", blocks, THREADS, matrix, n, kind, seed)
    a, b = decoded(np, kind, left), decoded(np, kind, right)
    sixteenths = np.concatenate([a, b]).ravel() * 16
    assert set(sixteenths.tolist()) == set(range(-15, 16, 2))
    assert abs(sixteenths.mean()) < 0.5
    assert not (a == b).all()

    product = b @ a.T  # in column order: [column, row]
    if kind == BF16:
        rounded = product.astype(np.float32).view(np.uint32)
        stored = ((rounded + 0x7FFF + (rounded >> 16 & 1)) >> 16).astype(np.uint16)
    else:
        stored = product.astype(np.float16 if kind == FP16 else np.float32).view(word)
    precision = next(p for p in PRECISIONS if p.type == kind)
    relative, absolute = (as_bits(value) for value in tolerances(precision, n))

    def wrong(columns: int, first: int) -> list[int]:
        report = empty_report()
        places = (columns, first, 8, 8, relative, absolute, 11, 22, report)
        kernels.launch("gemm_check", blocks, THREADS, stored, kind, n, *places)
        return list(report[:9])

    assert wrong(0, 0)[0] == wrong(1, 7)[0] == 0
    true = float(product[15, 8])
    for bad in (true + 3.0, -true - 3.0, float("nan"), float("inf")):
        raw = np.array([bad], dtype=np.float32).view(np.uint32)
        stored[15, 8] = (raw >> 16 if kind == BF16 else decoded_half(np, bad) if kind == FP16 else raw)[0]
        for found in (wrong(0, 0), wrong(1, 7)):  # row 8 and column 15 are among the samples
            assert found[0] == 1
            assert found[1] == 15 * n + 8
            assert as_float(found[7]) == true
            got = as_float(found[8])
            assert got == pytest.approx(bad, rel=0.01, nan_ok=True)


def test_fp8_matrices_are_those_of_the_other_formats(np: Any) -> None:
    kernels = cuda_on_cpu.kernels("gemm.cu")
    single, eighth = np.zeros(4096, dtype=np.float32), np.zeros(4096, dtype=np.uint8)
    kernels.launch("gemm_fill", 2, THREADS, single, 64, FP32, 11)
    kernels.launch("gemm_fill", 2, THREADS, eighth, 64, FP8, 11)
    exponent, mantissa = (eighth >> 3 & 15).astype(int), eighth & 7
    assert exponent.min() > 0  # none is subnormal
    values = np.where(eighth & 0x80, -1.0, 1.0) * (8 + mantissa) * 2.0 ** (exponent - 10)
    assert (values == single).all()


def decoded_half(np: Any, value: float) -> Any:
    return np.array([value], dtype=np.float16).view(np.uint16)


def test_every_half_precision_number_is_read_right(np: Any) -> None:
    """By way of the check against 0 with no tolerance, which records every element that is not 0."""
    kernels = cuda_on_cpu.kernels("gemm.cu")
    n = 16
    report = empty_report(records=n * n)
    for base in range(0, 65536, 8192 - 256):
        stored = np.arange(base, base + n * n, dtype=np.uint32).astype(np.uint16)
        report[0], report[1], report[2], report[3] = 0, 2**64 - 1, 0, 0
        minus_one = struct.unpack("<Q", struct.pack("<d", -1.0))[0]  # no error is small enough
        kernels.launch("gemm_check", 1, THREADS, stored, FP16, n, 0, 0, 1, n, 0, minus_one, 1, 2, report)
        records = records_of(report, n * n)
        assert len(records) == n * n
        for index, got in records.items():
            true = float(stored[index : index + 1].view(np.float16)[0])
            assert got == true or (got != got and true != true)


def records_of(report: Any, capacity: int) -> dict[int, float]:
    count = min(report[3], capacity)
    return {report[6 + 3 * i]: as_float(report[8 + 3 * i]) for i in range(count)}


def test_results_are_compared_bit_by_bit(np: Any) -> None:
    kernels = cuda_on_cpu.kernels("gemm.cu")
    one = aligned(np, 400)
    other = aligned(np, 400)
    other[:] = one
    report = empty_report()
    kernels.launch("gemm_compare", 2, THREADS, one, other, 100, report)
    assert report[0] == 0
    other[[3, 399]] ^= np.array([4, 8], dtype=np.uint32)
    kernels.launch("gemm_compare", 2, THREADS, one, other, 100, report)
    assert (report[0], report[1], report[2]) == (2, 3, 12)
