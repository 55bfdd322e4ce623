"""Workers of active tests through the live source: their lines as they come, their end in time, and the same from a recording."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from gpudoctor.sources import Recorder, open_live, open_paths, process
from gpudoctor.sources.answers import Status
from gpudoctor.sources.requests import labelled

ENVIRONMENT = dict(os.environ)


def python(script: str, **options: object) -> process.CommandAnswer:
    """Runs a child as workers are run."""
    argv = [sys.executable, "-c", script]
    return process.run(argv, request=("worker", "x"), environment=ENVIRONMENT, **options)  # type: ignore[arg-type]


ENDS_IN_ORDER = """
import signal, sys, time
def end(*_):
    print('{"event": "end"}', flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("begun", flush=True)
time.sleep(60)
"""
ENDS_NEVER = """
import signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
print("begun", flush=True)
while True:
    time.sleep(1)
"""


def test_lines_come_while_the_worker_still_runs() -> None:
    seen: list[tuple[float, str]] = []
    begun = time.monotonic()
    python(
        "import time; print('one', flush=True); time.sleep(0.6); print('tw', end=''); print('o')",
        timeout=10,
        on_line=lambda line: seen.append((time.monotonic() - begun, line)),
    )
    assert [line for _, line in seen] == ["one", "two"]
    assert seen[1][0] - seen[0][0] > 0.4


def test_a_worker_out_of_time_may_say_its_last_words() -> None:
    answer = python(ENDS_IN_ORDER, timeout=0.5, end_seconds=5)
    assert answer.status is Status.TIMEOUT
    assert answer.stdout.splitlines() == ["begun", '{"event": "end"}']
    assert answer.seconds < 3


def test_a_stopped_worker_that_ends_in_order_is_no_timeout() -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    answer = python(ENDS_IN_ORDER, timeout=30, stop=stop, end_seconds=5)
    assert (answer.status, answer.exit_code) == (Status.OK, 0)
    assert answer.seconds < 5


def test_a_worker_that_does_not_hear_is_killed() -> None:
    stop = threading.Event()
    stop.set()
    answer = python(ENDS_NEVER, timeout=30, stop=stop, end_seconds=0.5)
    assert answer.status is Status.TIMEOUT
    assert answer.seconds < 5


def test_nothing_is_left_running(tmp_path: Path) -> None:
    """Neither the worker nor what it started."""
    note = tmp_path / "pids"
    script = f"import os, subprocess; c = subprocess.Popen(['sleep', '300']); open({str(note)!r}, 'w').write(f'{{os.getpid()}} {{c.pid}}'); c.wait()"
    python(script, timeout=1.0, end_seconds=0.5)
    time.sleep(0.3)
    assert not [pid for pid in note.read_text().split() if _runs(pid)]


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_an_endless_line_does_not_fill_the_memory() -> None:
    longest = 0

    def see(line: str) -> None:
        nonlocal longest
        longest = max(longest, len(line))

    answer = python("import sys; sys.stdout.write('x' * 40_000_000 + chr(10))", timeout=20, on_line=see)
    assert answer.truncated
    assert longest <= 2 * 65_536


def test_a_fault_of_the_reader_ends_the_child() -> None:
    class Broken(Exception):
        pass

    def see(line: str) -> None:
        raise Broken

    begun = time.monotonic()
    with pytest.raises(Broken):
        python(ENDS_NEVER, timeout=30, on_line=see)
    assert time.monotonic() - begun < 5


def test_no_time_is_an_answer_and_starts_nothing() -> None:
    answer = open_live().watch("worker", "bench_devices", seconds=1, timeout=0)
    assert (answer.status, answer.seconds) == (Status.TIMEOUT, 0.0)


def test_the_time_given_is_no_part_of_the_request() -> None:
    source = open_live()
    answer = source.watch("worker", "nvml_sample", "#during memory", seconds=0.2, timeout=10)
    assert answer.argv == ("worker", "nvml_sample", "#during memory")
    assert source.run("worker", "nvml_sample", "#during memory") is answer


def test_labels_are_not_passed_on_and_make_another_request() -> None:
    source = open_live()
    first, second = source.run("echo", "a"), source.run(*labelled(("echo", "a"), "later"))
    assert first.stdout == second.stdout == "a\n"
    assert second.request == "echo a #later"


def test_a_recording_repeats_what_workers_said(tmp_path: Path) -> None:
    recorder = Recorder(open_live())
    live = recorder.watch("worker", "bench_devices", seconds=20, timeout=30)
    cut = recorder.watch("worker", "bench_memory", "--device", "0", seconds=1, timeout=0)
    recorder.save(tmp_path / "recording")
    again = open_paths([tmp_path / "recording"])
    for answer in (live, cut):
        repeated = again.watch(*answer.argv, seconds=1, timeout=1)
        assert (repeated.status, repeated.stdout, repeated.exit_code) == (
            answer.status,
            answer.stdout,
            answer.exit_code,
        )
    assert [document.text for document in again.documents()] == [document.text for document in recorder.documents()]


def test_a_failed_workers_words_are_searched_not_its_json() -> None:
    source = open_live()
    answer = source.watch("worker", "bench_devices", seconds=20, timeout=30)
    assert answer.status is Status.FAILED  # no GPU here, or no CuPy
    document = next(d for d in source.documents() if d.name == "worker bench_devices")
    assert document.text
    assert "{" not in document.text
