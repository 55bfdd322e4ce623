"""Tests that did not go as planned: cut short, killed, hung, no time, no CuPy; and what changed on the node meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.bench.conftest import Report
from tests.bench.nodes import A100_PCIE, H100, RTX_4090, Node, bdf, lines

ReportOn = Callable[..., Report]
DEVICES = ("worker", "bench_devices")


class TestNothingMeasured:
    def devices(self, node: Node, **error: object) -> Node:
        """CUDA did not start: what bench_devices said."""
        said = lines({"event": "error", **error}, {"event": "end", "complete": False, "seconds": 0.4})
        node.answers[DEVICES] = {"stdout": said, "status": "failed", "exit_code": 1}
        return node

    def test_no_cupy(self, report_on: ReportOn) -> None:
        words = "No module named 'cupy'"
        node = self.devices(
            Node(H100, 8), api="cupy", message=words, name="ModuleNotFoundError", where="loading CuPy"
        )
        report = report_on(node)
        assert (report.verdict, report.code) == ("unknown", 3)
        assert report.finding("bench/could-not-run")["causes"][0]["id"] == "cupy-missing"
        assert "pip install 'gpudoctor[cuda13]'" in " ".join(report.text.split())
        assert report.tests_run["essential"]
        assert report_on(node, "--allow-unknown").code == 0

    def test_cuda_12_wheels_for_a_driver_of_cuda_12(self, report_on: ReportOn) -> None:
        node = self.devices(
            Node(A100_PCIE, 1), api="cupy", message="No module named 'cupy'", name="ModuleNotFoundError"
        )
        dump = ("worker", "nvml_dump")
        text = node.commands()[dump]["stdout"].replace('"cuda_driver_version": 13000', '"cuda_driver_version": 12040')
        node.answers[dump] = {"stdout": text}
        assert "gpudoctor[cuda12]" in report_on(node).text

    @pytest.mark.parametrize(
        ("code", "name", "message", "rule"),
        [
            (802, "cudaErrorSystemNotReady", "system not yet initialized", "fabric/not-ready"),
            (803, "cudaErrorSystemDriverMismatch", "system has unsupported display driver / cuda driver combination", "cuda/system-driver-mismatch"),
            (804, "cudaErrorCompatNotSupportedOnDevice", "forward compatibility was attempted on non supported HW", "cuda/forward-compat-unsupported"),
            (46, "cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable", "gpu/busy-or-unavailable"),
            (100, "cudaErrorNoDevice", "no CUDA-capable device is detected", "cuda/no-device"),
        ],
    )  # fmt: skip
    def test_errors_of_cuda_are_explained(
        self, report_on: ReportOn, code: int, name: str, message: str, rule: str
    ) -> None:
        report = report_on(self.devices(Node(H100, 8), api="cuda", code=code, name=name, message=message))
        assert rule in report.rules
        assert report.roots[0][0] != "bench/could-not-run"  # it stands below what explains it
        assert name in report.text
        assert '{"event"' not in report.text  # words, not the worker's JSON

    def test_every_gpu_is_hidden(self, report_on: ReportOn) -> None:
        node = self.devices(
            Node(H100, 8),
            api="cuda",
            code=100,
            name="cudaErrorNoDevice",
            message="no CUDA-capable device is detected",
        )
        node.environment["CUDA_VISIBLE_DEVICES"] = ""
        assert report_on(node).tests_run["state"] == "no_evidence"


class TestCutShort:
    def test_a_killed_worker(self, report_on: ReportOn) -> None:
        node = Node(H100, 2)
        request = node.request("memory", 1)
        whole = node.output("memory", 1).splitlines(keepends=True)
        node.answers[request] = {"stdout": "".join(whole[:3]), "status": "failed", "exit_code": -9}
        report = report_on(node)
        run = next(r for r in report.bench["runs"] if r["test"] == "memory" and r["gpus"] == [bdf(1)])
        assert (run["state"], run["error_name"]) == ("partial", "SIGKILL")
        assert len(report.figures("memory")) == 6 + 2  # what it had measured counts
        assert "killed" in report.text

    def test_a_crashed_worker_without_results(self, report_on: ReportOn) -> None:
        node = Node(H100, 2)
        node.answers[node.request("gemm", 0)] = {
            "stdout": "",
            "stderr": "Fatal Python error",
            "status": "failed",
            "exit_code": -11,
        }
        report = report_on(node)
        assert (report.verdict, report.code) == ("unknown", 3)
        assert report.finding("bench/could-not-run")["causes"][0]["id"] == "killed"
        assert "crashed (SIGSEGV)" in report.text

    def test_a_hung_worker(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        request = node.request("nccl", *range(8))
        start = node.output("nccl", *range(8)).splitlines(keepends=True)[0]
        node.answers[request] = {"stdout": start, "status": "timeout", "exit_code": None, "seconds": 105.0}
        report = report_on(node)
        assert "bench/test-hangs" in report.rules
        assert report.code == 1
        assert "ended after 105 s" in " ".join(report.text.split())
        assert "NOT CHECKED" in report.text

    def test_no_time_was_left(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        node.answers[node.request("nccl", *range(8))] = {"status": "timeout", "exit_code": None, "seconds": 0.0}
        report = report_on(node)
        assert report.rules == []
        assert (report.verdict, report.code) == ("unknown", 3)
        assert "no time was left" in " ".join(report.text.split())
        assert len(report.figures("memory")) == 48

    def test_time_ran_out_in_the_middle(self, report_on: ReportOn) -> None:
        """A part of the plan is a result: said, but not alarming."""
        node = Node(H100, 1)
        said = node.output("gemm", 0).splitlines(keepends=True)[:3]
        end = lines({"event": "end", "complete": False, "seconds": 6.0, "why": "time ran out"})
        node.answers[node.request("gemm", 0)] = {"stdout": "".join(said) + end}
        report = report_on(node)
        assert (report.verdict, report.code) == ("pass", 0)
        assert report.tests_run["state"] == "partial"
        assert "time ran out" in report.text

    def test_hostile_output(self, report_on: ReportOn) -> None:
        node = Node(H100, 2)
        evil = [
            "\x1b[2J[bold]gone[/bold]",
            "{" * 5000,
            json.dumps({"event": "figure", "metric": "copy", "value": -5.0, "unit": "GB/s", "device": 0}),
            json.dumps({"event": "figure", "metric": "copy", "value": 1e300, "unit": "GB/s", "device": 0}),
            '{"event":"figure","metric":"copy","value":NaN,"unit":"GB/s","device":0}',
            json.dumps({"event": "figure", "metric": "copy", "value": 9.0, "unit": "GB/s", "device": 77}),
            json.dumps({"event": "figure", "metric": "\x1b[31mred", "value": 9.0, "unit": "GB/s", "device": 0}),
            json.dumps({"event": "note", "kind": "other", "text": "\x1b]0;title\x07" + "n" * 100_000, "device": 0}),
            json.dumps({"event": "unheard-of", "x": 1}),
            '{"event":"figure","metric":"copy","val',
        ]
        node.answers[node.request("memory", 0)] = {"stdout": node.output("memory", 0) + "\n".join(evil)}
        report = report_on(node)
        assert (report.verdict, report.rules) == ("pass", [])
        assert "\x1b" not in report.text
        assert max(map(len, report.text.splitlines())) < 500
        assert len([f for f in report.figures("memory", "copy") if f["bdf"] == bdf(0)]) == 1


class TestMeanwhile:
    def test_uncorrectable_errors(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        node.after["memory"] = {3: {"ecc_uncorrected_volatile": 2, "remapped_rows_pending": 1}}
        report = report_on(node)
        assert report.roots == [("bench/counters-rose", f"gpu {bdf(3)}")]
        changes = [(c["test"], c["counter"], c["before"], c["after"]) for c in report.bench["counters"]]
        assert changes == [("memory", "ecc_uncorrected", 0, 2), ("memory", "remapped_rows_pending", 0, 1)]

    def test_corrected_errors_are_a_note(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        node.after["gemm"] = {3: {"ecc_corrected_volatile": 5}}
        report = report_on(node)
        assert report.rules == ["bench/corrected-errors-rose"]
        assert report.code == 0

    def test_an_xid_during_a_test_is_a_finding_of_its_own(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        node.log_after["gemm"] = (
            f"[ 5012.000000] NVRM: Xid (PCI:{bdf(2)[:-2]}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
        )
        node.answers[node.request("gemm", 2)] = {"stdout": "", "status": "failed", "exit_code": 1}
        node.after["gemm"] = {}
        report = report_on(node)
        assert report.roots[0] == ("xid/fallen-off-bus", f"gpu {bdf(2)}")
        assert ("gemm", "xid") in [(c["test"], c["counter"]) for c in report.bench["counters"]]

    def test_an_old_xid_is_not_blamed_on_the_tests(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        node.log += f"[ 12.000000] NVRM: Xid (PCI:{bdf(2)[:-2]}): 31, pid=77, name=python, MMU Fault\n"
        report = report_on(node)
        assert report.bench["counters"] == []

    def test_replays_of_a_bad_riser(self, report_on: ReportOn) -> None:
        node = Node(RTX_4090, 1)
        node.after["pcie"] = {0: {"pcie_replay_count": 940}}
        finding = report_on(node).finding("bench/link-counters-rose")
        assert finding["causes"][0]["id"] == "pcie-signal"

    def test_heat(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        node.samples["gemm"] = {1: {"throttle_mask": 0x8 | 0x40, "sm_clock_mhz": 900, "temperature_c": 90}}
        node.figures["gemm", 1] = {metric: 0.5 * value for metric, value in node.figures["gemm", 1].items()}
        report = report_on(node)
        assert report.roots == [("bench/throttled", f"gpu {bdf(1)}")]
        assert report.rules == ["bench/throttled", "bench/compute-low"]

    def test_the_power_limit_is_no_slowdown(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        node.samples["gemm"] = {gpu: {"throttle_mask": 0x4, "sm_clock_mhz": 1400} for gpu in range(8)}
        report = report_on(node)
        assert report.rules == []
        assert report.bench["throttling"][0]["reasons"] == ["sw_power_cap"]

    def test_a_gpu_lost_under_load(self, report_on: ReportOn) -> None:
        node = Node(H100, 2, tests=("memory",))
        dump = node.commands()["worker", "nvml_dump", "#after 1 memory"]["stdout"].splitlines(keepends=True)
        gone = lines({"kind": "device", "index": 1, "handle": 15})
        node.answers["worker", "nvml_dump", "#after 1 memory"] = {"stdout": "".join(dump[:4]) + gone + dump[-1]}
        assert report_on(node).finding("bench/gpu-lost-in-test")["subject"] == f"gpu {bdf(1)}"


class TestWrongData:
    def fault(self, **values: object) -> dict[str, object]:
        return {"event": "fault", "kind": "bit_flip", "text": "12 words differ in bit 17", "device": 0, **values}

    @pytest.mark.parametrize(("model", "cause"), [(H100, "faulty-memory"), (RTX_4090, "overclocked-without-ecc")])
    def test_memory(self, report_on: ReportOn, model: dict[str, object], cause: str) -> None:
        node = Node(model, 1)
        node.extra["memory", 0] = [self.fault(address="0x3f8a1000", bits=[17], count=12)]
        report = report_on(node)
        assert report.roots == [("bench/memory-errors", f"gpu {bdf(0)}")]
        finding = report.finding("bench/memory-errors")
        assert "12 words differ in bit 17" in finding["title"]
        if cause == "faulty-memory":
            assert finding["causes"][0]["id"] == cause

    def test_matrix_products(self, report_on: ReportOn) -> None:
        node = Node(H100, 1)
        node.extra["gemm", 0] = [
            self.fault(kind="wrong_result", text="3 of 16777216 elements are wrong", metric="fp16")
        ]
        report = report_on(node)
        assert report.roots == [("bench/wrong-results", f"gpu {bdf(0)}")]
        runs = [step["run"] for step in report.finding("bench/wrong-results")["causes"][0]["steps"]]
        assert runs.index("dcgmi diag -r 4") < runs.index("sudo nvidia-bug-report.sh")

    def test_host_copies(self, report_on: ReportOn) -> None:
        node = Node(H100, 1)
        node.extra["pcie", 0] = [self.fault(kind="corrupt_copy", text="a copy to the GPU changed the data")]
        assert report_on(node).roots == [("bench/host-copy-corrupt", f"gpu {bdf(0)}")]
