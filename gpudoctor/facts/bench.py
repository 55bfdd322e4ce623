"""What active tests measured, found wrong, and could not do."""

from gpudoctor.facts.base import Fact


class BenchRun(Fact, frozen=True, kw_only=True):
    """One worker's run: what became of it. A run that could not measure is never a fault of the GPU by itself."""

    test: str  # memory, pcie, p2p, nccl, gemm, burn, memtest
    gpus: list[str] | None = None  # BDFs, or UUIDs of MIG slices
    # done, partial (part of its plan, see notes), failed (an error), timed_out, interrupted, not_run
    state: str
    seconds: float | None = None
    error_api: str | None = None  # cuda, nccl, nvrtc, cublas, cupy, worker
    error_code: int | None = None
    error_name: str | None = None  # cudaErrorSystemNotReady, NCCL_ERROR_SYSTEM_ERROR, ...
    error_message: str | None = None
    notes: list[str] | None = None  # what was left out or made smaller, and why
    busy: bool | None = None  # other processes used a GPU: low figures are not judged
    busy_gpus: list[str] | None = None  # which, as in `gpus`
    memory_tested_mib: int | None = None  # memtest: how much memory was written and read


class BenchFigure(Fact, frozen=True, kw_only=True):
    """One measured figure and its verdict against what this hardware should give."""

    test: str
    metric: str  # read, write, copy, scale, triad, device_copy; h2d_pinned, ...; all_reduce, ...; fp16, ...
    bdf: str | None = None  # the GPU; None: the whole node
    peer_bdf: str | None = None  # p2p: the other GPU
    gpu_name: str | None = None
    path: str | None = None  # nvlink, pcie, host (through host memory), where the worker knows it
    path_expected: str | None = None  # nvlink, where every pair of GPUs of this model is joined by it
    suspect_bdf: str | None = None  # of a low pair: the GPU that has more low pairs
    value: float
    unit: str  # GB/s (10^9 bytes), TFLOPS, us
    size_bytes: int | None = None
    spread: float | None = None  # (largest - smallest) / median of the repeats
    mig: str | None = None  # UUID of the MIG slice
    gpu_index: int | None = None  # nvidia-smi's
    peer_index: int | None = None
    metric_words: str | None = None  # the figure for people: "copies from pinned host memory"
    expected: float | None = None  # what this hardware should give, same unit
    ratio: float | None = None  # value / expected
    threshold_ratio: float | None = None  # lowest ratio that is still right
    basis: str | None = None  # where the expectation comes from: a publication, a baseline, the GPU's siblings
    # right, low, unjudged (no expectation, a busy GPU, ...); a marginal figure was measured twice before it is low
    verdict: str = "unjudged"
    why_unjudged: str | None = None
    measured_twice: bool | None = None  # the better of two runs, since the first was a little low
    siblings_median: float | None = (
        None  # of the same figure on the GPUs of this model here, when there are three or more
    )
    siblings_ratio: float | None = None  # value / siblings_median
    siblings_threshold: float | None = None  # below it the GPU is the odd one out


class BenchFault(Fact, frozen=True, kw_only=True):
    """Data that came back wrong: a hardware fault until proven otherwise."""

    test: str
    kind: str  # bit_flip, wrong_address, corrupt_copy, wrong_result
    bdf: str | None = None
    peer_bdf: str | None = None
    metric: str | None = None  # the pattern, collective or precision during which it happened
    count: int | None = None  # wrong elements
    address: str | None = None  # the first one's offset in the tested memory, hexadecimal
    expected: str | None = None
    got: str | None = None
    bits: list[int] | None = None  # bits that differed in any wrong word
    text: str | None = None  # one line for people
    gpu_index: int | None = None
    ecc_mode: bool | None = None  # of the GPU


class CounterChange(Fact, frozen=True, kw_only=True):
    """A counter that rose while a test ran."""

    test: str
    bdf: str | None = None
    # ecc_corrected, ecc_uncorrected, remapped_rows_*, pcie_replays, nvlink_errors, aer, xid
    counter: str
    before: int
    after: int
    detail: str | None = None


class ThrottleSeen(Fact, frozen=True, kw_only=True):
    """Clocks held back while a test ran, for a reason other than idleness."""

    test: str
    bdf: str | None = None
    reasons: list[str]
    share: float | None = None  # of the samples under load that show one of the reasons
    sm_clock_mhz_lowest: int | None = None
    temperature_c_highest: int | None = None
    power_w_highest: float | None = None


class LoadSeen(Fact, frozen=True, kw_only=True):
    """What a GPU showed while a test ran on it."""

    test: str
    bdf: str | None = None
    samples: int = 0
    sm_clock_mhz_median: int | None = None
    temperature_c_highest: int | None = None
    power_w_highest: float | None = None
    pcie_generation: int | None = None  # the highest seen: idle links are slow on purpose
    pcie_width: int | None = None
    reasons: list[str] | None = None  # all that held the clocks at any time


class Bench(Fact, frozen=True, kw_only=True):
    """Active tests: `gpudoctor bench`, or `check --level 2` and `3`."""

    runs: list[BenchRun] | None = None
    figures: list[BenchFigure] | None = None
    faults: list[BenchFault] | None = None
    counters: list[CounterChange] | None = None
    throttling: list[ThrottleSeen] | None = None
    load: list[LoadSeen] | None = None
    gpus_visible: int | None = None  # that CUDA shows, CUDA_VISIBLE_DEVICES applied
    gpus_present: int | None = None  # that the driver answers for; None with MIG, whose slices count otherwise
    baseline: str | None = None  # file whose figures were taken as expected
