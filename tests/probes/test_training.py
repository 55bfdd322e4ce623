"""Training logs and messages about GPU memory, in the words of several frameworks and releases."""

from __future__ import annotations

import pytest

from gpudoctor.facts import Training
from gpudoctor.probes import training
from gpudoctor.probes.training_first import parse_first
from gpudoctor.probes.training_memory import mebibytes, parse_out_of_memory
from gpudoctor.sources import open_text


def read(text: str) -> Training | None:
    return training.probe(open_text(text))


@pytest.mark.parametrize(
    ("line", "data", "step"),
    [
        ("Epoch: [0][ 50/5005]\tTime  2.011 ( 2.299)\tData  1.799 ( 2.055)\tLoss 6.92 (6.96)", 1.799, 2.011),
        (
            "mmdet - INFO - Epoch [1][50/7330] lr: 1e-3, eta: 1 day, 3:02:11, time: 0.912, data_time: 0.702",
            0.702,
            0.912,
        ),
        (
            "Epoch(train) [1][ 50/7330] lr: 9.8e-04 eta: 10:00:00 time: 0.4523 data_time: 0.3012 loss: 1.0",
            0.3012,
            0.4523,
        ),
        (
            "[d2.utils.events]: eta: 2:10:00 iter: 199 time: 0.3512 last_time: 0.3412 data_time: 0.0051",
            0.0051,
            0.3512,
        ),
        ("Epoch: [0] [ 100/2502] eta: 0:25:01 loss: 6.9 time: 0.6012 data: 0.4501 max mem: 11000", 0.4501, 0.6012),
        ("118/281 [00:39<00:54, 3.01it/s, train/data_time=0.217, train/iter_time=0.332]", 0.217, 0.332),
        ("Train: 0 [50/5004] Loss: 6.9 Time: 0.512s, 499.7/s (0.601s) LR: 1e-6 Data: 0.310 (0.412)", 0.31, 0.512),
        ("step 120: preprocess 3.91 s, gpu 0.42 s", 3.91, 4.33),
        ("iter 7: data 850 ms | forward+backward 120 ms", 0.85, 0.97),
        ("[Epoch 2, iter: 300] reader_cost: 0.75031 s, batch_cost: 1.00042 s, ips: 31.9 samples/s", 0.75031, 1.00042),
        ("loading batch: 3.2s, training step: 0.8s", 3.2, 4.0),
        ("dataloader took 4.1 sec and the gpu step 0.9 sec", 4.1, 5.0),
        ("(epoch: 7, iters: 1200, time: 0.250, data: 1.750) D_real: 0.31 D_fake: 0.44", 1.75, 2.0),
    ],
)
def test_a_line_tells_step_and_data_time(line: str, data: float, step: float) -> None:
    found = read(line)
    assert found is not None
    assert found.data_seconds == pytest.approx(data)
    assert found.step_seconds == pytest.approx(step)
    assert found.data_share == pytest.approx(data / step)
    assert found.evidence["data_share"].text == line.strip()


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Time taken 3.4 s",
        "data 2024-01-02 time 3.2 h",
        "loading data from /data/time/0.1",
        "Data 9.1 Time 0.2",  # more waiting than the step lasts: something else is meant
        "metadata_time: 0.5",
    ],
)
def test_other_lines_tell_nothing(line: str) -> None:
    assert read(line) is None


def test_the_first_step_does_not_count() -> None:
    lines = ["Time 31.0 (31.0) Data 29.0 (29.0)", *["Time 0.300 (0.9) Data 0.003 (0.8)"] * 4]
    found = read("\n".join(lines))
    assert found is not None
    assert found.data_share == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("text", "workers"),
    [
        ("$ grep num_workers conf.yaml\n  num_workers: 2", 2),
        ("python train.py --workers 16 --amp", 16),
        ("data=dict(samples_per_gpu=2, workers_per_gpu=0)", 0),
        ("DataLoader(ds, batch_size=8, num_workers=0)", 0),
        ("cfg: {'num_workers': 0}\ntrain_dataloader: {'num_workers': 32}", 32),
        ("plenty of workers", None),
    ],
)
def test_workers(text: str, workers: int | None) -> None:
    found = read(text)
    assert (found.dataloader_workers if found else None) == workers


DMON = """$ nvidia-smi dmon -s u -c 4
# gpu     sm    mem    enc    dec
# Idx      %      %      %      %
    0      8      3      0      0
    1      0      0      0      0
    0     61     22      0      0
    1      0      0      0      0
    0      0      -      0      0
    1      0      0      0      0
$ uptime"""


def test_samples_of_the_busiest_gpu() -> None:
    found = read(DMON)
    assert found is not None
    assert (found.utilization_mean_pct, found.utilization_max_pct, found.utilization_samples) == (23.0, 61, 3)


def test_samples_of_a_wide_dmon_and_of_a_loop() -> None:
    wide = (
        "# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk\n"
        + "    0     7    60     -   100    10     0     0   405   139\n" * 3
    )
    found = read(wide)
    assert found is not None
    assert found.utilization_mean_pct == 100
    loop = (
        "$ nvidia-smi --query-gpu=timestamp,utilization.gpu --format=csv -l 1\ntimestamp, utilization.gpu [%]\n"
        + "".join(f"2025/03/01 10:00:0{n}.000, {5 * n} %\n" for n in range(4))
    )
    found = read(loop)
    assert found is not None
    assert (found.utilization_samples, found.utilization_max_pct) == (4, 15)


def test_one_query_is_no_series() -> None:
    assert read("$ nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader\n3 %\n0 %\n5 %\n") is None


OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 1.65 GiB (GPU 1; 7.79 GiB total capacity; 3.53 GiB already "
    "allocated; 1.40 GiB free; 5.28 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory"
)
NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of 23.64 GiB of "
    "which 12.00 MiB is free. Process 3112 has 3.20 GiB memory in use. Including non-PyTorch memory, this process has 20.00 "
    "GiB memory in use. Of the allocated memory 12.10 GiB is allocated by PyTorch, and 5.90 GiB is reserved by PyTorch but "
    "unallocated."
)


def test_old_wording() -> None:
    (one,) = parse_out_of_memory(OLD)
    assert one.requested == pytest.approx(1.65 * 1024)
    assert one.allocated == pytest.approx(3.53 * 1024)
    assert one.reserved == pytest.approx(5.28 * 1024)
    assert one.free == pytest.approx(1.40 * 1024)


def test_new_wording_also_wrapped() -> None:
    wrapped = NEW.replace(". ", ".\n")
    for text in (NEW, wrapped):
        (one,) = parse_out_of_memory(text)
        assert one.reserved == pytest.approx(18.0 * 1024)
        assert one.others == pytest.approx(3.2 * 1024)
        assert one.free == 12.0


def test_oldest_wording_and_vllm() -> None:
    (one,) = parse_out_of_memory(
        "Tried to allocate 12.50 MiB (GPU 0; 10.92 GiB total capacity; 8.57 MiB already allocated; 9.28 GiB free; 4.68 MiB cached)"
    )
    assert (one.requested, one.reserved) == (12.5, 8.57 + 4.68)
    (one,) = parse_out_of_memory(
        "Tried to allocate 64.00 MiB (GPU 0; 7.93 GiB total capacity; 7.10 GiB already allocated; 20.00 MiB free; 7.20 GiB cached)"
    )
    assert one.reserved == pytest.approx(7.2 * 1024)
    (one,) = parse_out_of_memory(
        "ValueError: Free memory on device (0.49/79.32 GiB) on startup is less than desired GPU memory utilization (0.6, 47.59 GiB)."
    )
    assert one.others is not None
    assert one.others > 70 * 1024


def test_damaged_messages() -> None:
    assert parse_out_of_memory("") == []
    (one,) = parse_out_of_memory("Tried to allocate 20.00 MiB (GPU 0; 4.0")
    assert (one.requested, one.total) == (20.0, None)
    assert mebibytes("..5 GiB") is None
    assert len(parse_out_of_memory("\n".join(f"Tried to allocate {n}.00 MiB" for n in range(1000)))) == 20


def test_nothing_of_a_kernel_log() -> None:
    assert read("[    1.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15\n" * 50) is None


@pytest.mark.parametrize(
    ("text", "base", "gpus", "efficiency"),
    [
        ("1x A100: 1.5 s/it\n4x A100 (torchrun): 3.0 s/it", 1, 4, 0.5),
        ("8 GPUs: 90 s/epoch\n1 GPU: 360 s/epoch", 1, 8, 0.5),
        ("Single GPU: 12.4 samples/s, two GPUs: 12.4 samples/s (2x RTX 4090)", 1, 2, 0.5),
        ("12.0 it/s with one GPU, 6.0 it/s with 2 GPUs", 1, 2, 0.5),
        ("num_gpus=2 320 images/sec\nnum_gpus=8 1280 images/sec", 2, 8, 1.0),
        ("2 GPUs: 3.0 it/s", None, None, None),
        ("1 GPU: 3.0 it/s\n4 GPUs: 800 samples/s", None, None, None),
        ("batch 1 GPU mem 3 GB 120 images/s; batch 4 GPU mem 8 GB 130 images/s", None, None, None),
        ("1x upscale 12 it/s\n4x upscale 3 it/s", None, None, None),
        ("Using 4 GPUs\n100%|##| 20/20 [00:10<00:00, 2.0it/s]", None, None, None),
    ],
)
def test_speeds_with_several_numbers_of_gpus_tell_how_well_it_scales(
    text: str, base: int | None, gpus: int | None, efficiency: float | None
) -> None:
    facts = read(text) or Training()
    assert (facts.scaling_base_gpus, facts.scaling_gpus, facts.scaling_efficiency) == (base, gpus, efficiency)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("0 0:02:01.451538\n1 0:00:00.000205\n2 0:00:00.000057\n3 0:00:00.000058\n", 121.451538),
        ("iter 0: 94.21 s\niter 1: 0.21 s\niter 2: 0.20 s\n", 94.21),
        ("inference took 31.5\ninference took 0.021\ninference took 0.020\nloss 3\n", 31.5),
        ("start\nrun 1: 8120.4 ms\nrun 2: 12.1 ms\nrun 3: 11.9 ms\n", 8.1204),
        ("iter 0: 0.9 s\niter 1: 0.01 s\niter 2: 0.01 s\n", None),  # usual
        ("iter 0: 94.2 s\niter 1: 90.1 s\niter 2: 91.0 s\n", None),
        ("iter 0: 94.2 s\niter 1: 0.1 s\niter 2: 91.0 s\n", None),
        ("step 0 loss 94.2\nstep 1 loss 0.2\nstep 2 loss 0.1\n", None),
        ("load took 94.2 s\nrun took 0.2 s\nsave took 0.1 s\n", None),
        ("23:59:59.99 a\n00:00:00.01 a\n00:00:00.02 a\n", None),
        ("", None),
        ("0 0:02:\n:::\n", None),
    ],
)
def test_a_first_time_of_another_size(text: str, first: float | None) -> None:
    found = parse_first(text)
    assert (found.first if found else None) == first
