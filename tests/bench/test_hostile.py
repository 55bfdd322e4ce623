"""Whatever workers, samplers and recordings contain: no exception, and nothing believed that cannot be."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.bench import counters
from gpudoctor.bench.model import Job, Target
from gpudoctor.bench.outcome import read_outcome
from gpudoctor.bench.targets import devices_of, targets_of
from gpudoctor.facts import Facts, Gpu, Kernel, KernelEvent, NvLink, Xid
from gpudoctor.sources.answers import CommandAnswer, Status
from gpudoctor.sources.worker_words import worker_document

JOB = Job(
    test="memory",
    request=("worker", "bench_memory"),
    targets=(Target(ordinal=0, bdf="0000:18:00.0"), Target(ordinal=1)),
)
EVENTS = ("start", "progress", "figure", "fault", "note", "error", "end", "x")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["metric", "value", "unit", "device", "peer", "kind", "text", "api", "message", "code", "name", "complete", "seconds",
     "devices", "done", "what", "bits", "count", "path", "size_bytes", "spread", "ordinal", "bdf"]
)  # fmt: skip
LINES = st.builds(
    lambda event, fields: json.dumps({"event": event, **fields}),
    st.sampled_from(EVENTS),
    st.dictionaries(NAMES, VALUES),
)
OUTPUT = st.lists(LINES | st.text(max_size=40), max_size=12).map("\n".join)
ANSWERS = st.builds(
    lambda stdout, stderr, status, code, seconds: CommandAnswer(
        argv=("worker", "bench_memory"), status=status, exit_code=code, stdout=stdout, stderr=stderr, seconds=seconds
    ),
    OUTPUT,
    st.text(max_size=60),
    st.sampled_from(list(Status)),
    st.none() | st.integers(-70, 255),
    st.floats(0, 1e4),
)


@settings(max_examples=200, deadline=None)
@given(ANSWERS, st.booleans())
def test_any_output_of_a_worker(answer: CommandAnswer, interrupted: bool) -> None:
    outcome = read_outcome(JOB, answer, interrupted=interrupted)
    assert outcome.run.state in {"done", "partial", "failed", "timed_out", "interrupted", "not_run"}
    for figure in outcome.figures:
        assert 0 < figure.value < 1e9
        assert len(figure.metric) <= 60
    if outcome.run.state in ("failed", "not_run"):
        assert not outcome.figures
    targets_of(devices_of(answer.stdout) or [], Facts())
    document = worker_document(answer)
    assert len(document.line_numbers or []) == (document.text.count("\n") + 1 if document.text else 0)


@settings(max_examples=100, deadline=None)
@given(OUTPUT)
def test_any_output_of_the_sampler(stdout: str) -> None:
    counters.load_seen("memory", counters.samples_of(stdout), ["0000:18:00.0"], lambda mask: [])


def test_sample_lines_that_are_none() -> None:
    good = {
        "kind": "sample",
        "index": 0,
        "bdf": "00000000:18:00.0",
        "values": {"sm_clock_mhz": 900, "throttle_mask": "x"},
    }
    lines = [
        json.dumps(good),
        "{" * 3000,
        "[]",
        json.dumps({**good, "bdf": 7}),
        json.dumps({**good, "values": []}),
        "x" * 10**6,
    ]
    (sample,) = counters.samples_of("\n".join(lines))
    assert sample.values == {"sm_clock_mhz": 900}


def test_counters_only_ever_rise() -> None:
    """A reset between the two readings, or a counter that is not known, is no error."""
    before = [Gpu(index=0, bdf="0000:18:00.0", ecc_corrected_volatile=9, pcie_replay_count=4)]
    after = [
        Gpu(index=0, bdf="0000:18:00.0", ecc_corrected_volatile=2, pcie_replay_count=None, ecc_uncorrected_volatile=3)
    ]
    assert counters.gpu_changes("memory", before, after) == []
    assert counters.gpu_changes("memory", [], after) == []


def test_link_errors_are_summed() -> None:
    def gpu(errors: int) -> list[Gpu]:
        return [
            Gpu(
                index=0,
                bdf="0000:18:00.0",
                nvlinks=[NvLink(link=n, crc_errors=errors, replay_errors=1) for n in range(3)],
            )
        ]

    (change,) = counters.gpu_changes("p2p", gpu(0), gpu(2))
    assert (change.counter, change.before, change.after) == ("nvlink_errors", 3, 9)


def test_a_log_that_was_not_read_twice_says_nothing() -> None:
    log = Kernel(xids=[Xid(code=79, bdf="0000:18:00")], aer=[KernelEvent(kind="aer", bdf="0000:18:00.0", text="x")])
    assert counters.kernel_changes("memory", None, log) == []
    assert counters.kernel_changes("memory", Kernel(), log) == []
    found = counters.kernel_changes("memory", Kernel(xids=[], aer=[]), log)
    assert [(change.counter, change.bdf) for change in found] == [("xid", "0000:18:00.0"), ("aer", "0000:18:00.0")]
