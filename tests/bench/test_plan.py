"""Which workers run where, for how long: pure, so on made-up devices."""

from __future__ import annotations

import pytest

from gpudoctor.bench import plan
from gpudoctor.bench.model import TESTS, Stage, Target
from gpudoctor.bench.targets import address, chosen, devices_of, targets_of
from gpudoctor.errors import GpudoctorError
from gpudoctor.facts import Facts, Gpu, Pci, PciDevice
from tests.bench.nodes import bdf, lines


def targets(count: int, *, nodes: tuple[int | None, ...] = (0,), mig: bool = False) -> list[Target]:
    return [
        Target(
            ordinal=n, bdf=bdf(n), numa_node=nodes[n * len(nodes) // count], mig=f"MIG-{n}" if mig else None
        )
        for n in range(count)
    ]  # fmt: skip


def test_memory_and_arithmetic_run_on_all_gpus_at_once() -> None:
    memory, gemm = plan.stages(("memory", "gemm"), targets(8), level=2)
    assert [len(stage.groups) for stage in (memory, gemm)] == [8, 8]
    assert memory.jobs[3].request == ("worker", "bench_memory", "--quick", "--device", "3")


def test_copies_run_one_at_a_time_on_each_socket() -> None:
    (pcie,) = plan.stages(("pcie",), targets(8, nodes=(0, 1)), level=2)
    assert [len(group) for group in pcie.groups] == [4, 4]
    (unknown,) = plan.stages(("pcie",), targets(4, nodes=(None,)), level=2)
    assert [len(group) for group in unknown.groups] == [4]


def test_tests_of_several_gpus_need_several() -> None:
    assert [s.test for s in plan.stages(TESTS, targets(1), level=3)] == ["memory", "gemm", "pcie", "memtest", "burn"]
    assert [s.test for s in plan.stages(TESTS, targets(4, mig=True), level=2)] == [
        "memory",
        "gemm",
        "pcie",
        "memtest",
        "burn",
    ]
    p2p, nccl = plan.stages(("nccl", "p2p"), targets(4), level=3)
    assert nccl.jobs[0].request[-8:] == ("--device", "0", "--device", "1", "--device", "2", "--device", "3")
    assert p2p.test == "p2p"


def test_under_a_launcher_nccl_runs_with_one_gpu_and_not_alone() -> None:
    (nccl,) = plan.stages(("nccl",), targets(1), level=3, launched=True)
    assert "--alone" not in nccl.jobs[0].request
    (alone,) = plan.stages(("nccl",), targets(2), level=2)
    assert "--alone" in alone.jobs[0].request


def test_burn_is_the_matrix_worker_for_longer() -> None:
    (burn,) = plan.stages(("burn",), targets(1), level=3)
    assert burn.jobs[0].request == ("worker", "bench_gemm", "--burn", "--device", "0")


def test_level_2_takes_about_ten_seconds_a_gpu() -> None:
    one = plan.stages(("memory", "gemm", "pcie"), targets(1), level=2)
    assert plan.total(one) <= 25
    eight = plan.stages(("memory", "gemm", "pcie", "p2p", "nccl"), targets(8, nodes=(0, 1)), level=2)
    assert plan.total(eight) <= 100


class TestFitting:
    def stages(self) -> list[Stage]:
        return plan.stages(("memory", "gemm", "pcie"), targets(2), level=3)

    def test_enough_time(self) -> None:
        assert plan.allowed_seconds(self.stages(), 1000) == self.stages()[0].seconds

    def test_less_time_is_taken_from_all_alike(self) -> None:
        whole, left = self.stages(), 45.0
        spent = 0.0
        for index in range(len(whole)):
            seconds = plan.allowed_seconds(whole[index:], left - spent)
            assert whole[index].least_seconds <= seconds < whole[index].seconds
            spent += plan.duration(whole[index], seconds)
        assert spent <= left + 0.5

    def test_too_little_time_goes_to_the_first(self) -> None:
        stages = self.stages()
        assert plan.allowed_seconds(stages, 6.0) == stages[0].least_seconds
        assert plan.allowed_seconds(stages, 2.0) == 0.0
        assert plan.allowed_seconds(stages, -5.0) == 0.0


class TestTargets:
    def facts(self) -> Facts:
        gpus = [Gpu(index=n, bdf=bdf(n), uuid=f"GPU-{n}", device_id="10de:2330") for n in range(4)]
        devices = [PciDevice(bdf=bdf(n), device_id="10de:2330", numa_node=n // 2) for n in range(4)]
        return Facts(gpus=gpus, pci=Pci(nvidia_devices=devices))

    def visible(self, *indexes: int) -> list[Target]:
        """CUDA_VISIBLE_DEVICES shows these: CUDA numbers them anew."""
        said = lines({"event": "start", "test": "devices", "devices": [
            {"ordinal": o, "name": "NVIDIA H100 80GB HBM3", "bdf": bdf(i).upper(), "uuid": f"GPU-{i}"} for o, i in enumerate(indexes)
        ]})  # fmt: skip
        return targets_of(devices_of("chatter\n" + said) or [], self.facts())

    def test_devices_are_joined_by_address(self) -> None:
        first, second = self.visible(3, 1)
        assert (first.ordinal, first.index, first.numa_node) == (0, 3, 1)
        assert (second.ordinal, second.label) == (1, "GPU 1")
        assert first.model is not None
        assert first.model.slug == "h100-sxm5-80gb"

    @pytest.mark.parametrize("name", ["3", "GPU-3", "5d:00.0", "00000000:5D:00.0"])
    def test_one_is_chosen_by_any_of_its_names(self, name: str) -> None:
        assert [target.ordinal for target in chosen(self.visible(3, 1), (name,))] == [0]

    def test_a_hidden_one_is_an_error(self) -> None:
        with pytest.raises(GpudoctorError, match="--gpu 0: CUDA shows no such GPU"):
            chosen(self.visible(3, 1), ("0",))

    @pytest.mark.parametrize("text", ["", "GPU-1", "xx:00.0", "1", None])
    def test_what_is_no_address(self, text: str | None) -> None:
        assert address(text) is None
