"""Slurm nodes from scontrol and sinfo, of several versions, and cut, filtered or damaged."""

from __future__ import annotations

import pytest

from gpudoctor.facts import SlurmNode, SlurmRequest
from gpudoctor.probes import slurm
from gpudoctor.probes.slurm import parse_slurm
from gpudoctor.probes.slurm_values import expand_hostlist, gres_gpus, tres_gpus
from gpudoctor.sources import open_text

NEW = """\
NodeName=h1 Arch=x86_64 CoresPerSocket=32
   CPUAlloc=8 CPUEfctv=128 CPUTot=128 CPULoad=0.11
   AvailableFeatures=(null)
   ActiveFeatures=(null)
   Gres=gpu:h100:8(S:0-1)
   NodeAddr=h1 NodeHostName=h1 Version=23.11.4
   OS=Linux 5.15.0-91-generic #101-Ubuntu SMP Tue Nov 14 13:30:08 UTC 2023
   RealMemory=1030000 AllocMem=0 FreeMem=N/A Sockets=2 Boards=1
   State=IDLE+DRAIN+INVALID_REG ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu,long
   BootTime=2024-01-05T12:00:00 SlurmdStartTime=None
   CfgTRES=cpu=128,mem=1030000M,billing=128,gres/gpu=8,gres/gpu:h100=8
   AllocTRES=cpu=8,gres/gpu=3,gres/gpu:h100=3
   Reason=gres/gpu count reported lower than configured (7 < 8) [slurm@2024-02-01T09:12:44]

"""
OLD = """\
NodeName=old Arch=x86_64 CoresPerSocket=12
   CPUAlloc=0 CPUErr=0 CPUTot=24 CPULoad=1.55
   Gres=gpu:2
   NodeAddr=old NodeHostName=old Version=17.11
   OS=Linux 3.10.0-862.9.1.el7.x86_64 #1 SMP Mon Jul 16 16:29:36 UTC 2018
   RealMemory=95307 AllocMem=0 FreeMem=82349 Sockets=2 Boards=1
   State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=2040 Owner=N/A MCS_label=N/A
   CfgTRES=cpu=24,mem=95307M,billing=24
   AllocTRES=
"""


def only(text: str) -> SlurmNode:
    nodes = parse_slurm(text)
    assert len(nodes) == 1
    return nodes[0]


def test_scontrol() -> None:
    node = only(NEW)
    assert (node.name, node.gres, node.gpus, node.gpus_in_tres, node.gpus_allocated) == (
        "h1",
        "gpu:h100:8(S:0-1)",
        8,
        8,
        3,
    )
    assert (node.state, node.partitions, node.version) == ("IDLE+DRAIN+INVALID_REG", "gpu,long", "23.11.4")
    assert node.reason == "gres/gpu count reported lower than configured (7 < 8)"
    assert (node.reason_by, node.reason_time) == ("slurm", "2024-02-01T09:12:44")
    assert node.evidence["reason"].line == 14


def test_scontrol_of_an_old_version_beside_a_new_one() -> None:
    new, old = parse_slurm(NEW + OLD)
    assert new.name == "h1"
    assert (old.gpus, old.gpus_in_tres, old.gpus_allocated, old.reason) == (2, 0, 0, "")


def test_one_line_a_node() -> None:
    line = " ".join(NEW.split())
    node = only(line)
    assert (node.name, node.gpus, node.state, node.gpus_in_tres) == ("h1", 8, "IDLE+DRAIN+INVALID_REG", 8)


def test_scontrol_through_grep_has_no_name_and_no_invented_reason() -> None:
    node = only("   Gres=gpu:4\n   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1\n")
    assert (node.name, node.gpus, node.state, node.reason) == ("unnamed", 4, "IDLE", None)


def test_an_operators_reason_of_two_lines() -> None:
    node = only("NodeName=a State=DOWN+DRAIN\n   Reason=bad GPU 3\n   waiting for parts [ann@2024-05-05T10:00:00]\n")
    assert node.reason == "bad GPU 3\nwaiting for parts"
    assert node.reason_by == "ann"


def test_sinfo_default() -> None:
    nodes = parse_slurm(
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
        "gpu*         up 1-00:00:00      1  down* gpu01\n"
        "gpu*         up 1-00:00:00      2   idle gpu[02-03]\n"
    )
    assert [(n.name, n.state, n.partitions) for n in nodes] == [
        ("gpu01", "down*", "gpu"),
        ("gpu02", "idle", "gpu"),
        ("gpu03", "idle", "gpu"),
    ]


def test_sinfo_reasons() -> None:
    nodes = parse_slurm(
        "REASON               USER      TIMESTAMP           NODELIST\n"
        "gres/gpu count repor slurm     2024-01-05T10:00:00 gpu01\n"
    )
    assert (nodes[0].name, nodes[0].reason, nodes[0].reason_by) == ("gpu01", "gres/gpu count repor", "slurm")


def test_sinfo_long_by_node() -> None:
    nodes = parse_slurm(
        "Fri Jan  5 10:00:00 2024\n"
        "NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON              \n"
        "gpu01          1      gpu*     drained 64     2:16:2 515000        0      1   (null) Prolog error        \n"
        "gpu02          1      gpu*        idle 64     2:16:2 515000        0      1   (null) none                \n"
    )
    assert [(n.name, n.state, n.reason) for n in nodes] == [
        ("gpu01", "drained", "Prolog error"),
        ("gpu02", "idle", ""),
    ]


def test_sinfo_with_bars() -> None:
    text = "NODELIST|GRES|GRES_USED|STATE|REASON\nn1 |gpu:a100:8 |gpu:a100:2(IDX:0-1) |mixed |none\n"
    node = only(text)
    assert (node.gpus, node.gpus_allocated, node.state, node.reason) == (8, 2, "mixed", "")


def test_rows_without_a_heading() -> None:
    node = only("n1   |gpu:ampere:8  |gpu:ampere:0(IDX:N/A) |256 |idle |learn\n")
    assert (node.name, node.gres, node.gpus_allocated, node.state) == ("n1", "gpu:ampere:8", 0, "idle")
    assert parse_slurm("gpu01 gpu:a100:4 idle\n")[0].gpus == 4


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        ("gpu:8", 8),
        ("gpu:a100:4(S:0-1),gpu:h100:2", 6),
        ("gpu", 1),
        ("(null)", 0),
        ("fpga:2", 0),
        ("gpu:1g.5gb:7", 7),
    ],
)
def test_gres(gres: str, count: int) -> None:
    assert gres_gpus(gres) == count


def test_tres() -> None:
    assert tres_gpus("cpu=8,gres/gpu=3,gres/gpu:h100=3") == 3
    assert tres_gpus("cpu=8,gres/gpu:a=1,gres/gpu:b=2") == 3
    assert tres_gpus("") == 0


def test_hostlists() -> None:
    assert expand_hostlist("gpu[01-03,07],login") == ["gpu01", "gpu02", "gpu03", "gpu07", "login"]
    assert expand_hostlist("r[1-2]n[1-2]") == ["r1n1", "r1n2", "r2n1", "r2n2"]
    assert expand_hostlist("n[1-99999999]") == ["n[1-99999999]"]
    assert expand_hostlist("n[1-") == ["n[1-"]


@pytest.mark.parametrize("text", ["", "\x00\xff", "NodeName=", "STATE NODELIST\n", "|" * 1000, "State=" * 100])
def test_damaged_text_never_raises(text: str) -> None:
    assert all(node.gpus in (None, 0) for node in parse_slurm(text))


def test_a_paste() -> None:
    read = slurm.probe(open_text("$ scontrol show node h1\n" + NEW + "$ sinfo -R\nnothing\n"))
    assert read is not None
    assert [n.name for n in read.nodes or []] == ["h1"]


def test_a_reason_that_grep_left_belongs_to_the_drained_node() -> None:
    read = slurm.probe(
        open_text(
            "$ sinfo\nPARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ngpu*         up   infinite      1  drain gpu02\n"
            "gpu*         up   infinite      1   idle gpu01\n$ scontrol show node gpu02 | grep -i reason\n   Reason=Low RealMemory [slurm@2024-03-01T10:00:00]\n"
        )
    )
    assert read is not None
    assert [(n.name, n.state, n.reason) for n in read.nodes or []] == [
        ("gpu02", "drain", "Low RealMemory"),
        ("gpu01", "idle", None),
    ]


REASONS = "REASON               USER      TIMESTAMP           NODELIST\n"


def test_states_and_reasons_of_two_outputs_of_sinfo() -> None:
    states = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ngpu*         up   infinite      1   down gpu02\n"
    why = REASONS + "Not responding       root      2024-03-05T11:35:16 gpu02\n"
    for text in (f"$ sinfo\n{states}$ sinfo -R\n{why}", f"$ sinfo -R\n{why}$ sinfo\n{states}", states + why):
        read = slurm.probe(open_text(text))
        assert read is not None
        assert [(n.name, n.state, n.reason, n.reason_alone) for n in read.nodes or []] == [
            ("gpu02", "down", "Not responding", False)
        ]


def test_a_reason_without_a_state() -> None:
    read = slurm.probe(open_text(f"$ sinfo -R\n{REASONS}Kill task failed     root      2024-03-05T11:35:16 n[1-2]\n"))
    assert read is not None
    assert [(n.name, n.reason, n.reason_alone) for n in read.nodes or []] == [
        ("n1", "Kill task failed", True),
        ("n2", "Kill task failed", True),
    ]
    read = slurm.probe(open_text("   Reason=Not responding [slurm@2024-03-05T11:35:16]\n"))
    assert read is not None
    assert [(n.reason, n.reason_alone) for n in read.nodes or []] == [("Not responding", True)]


def test_the_later_of_two_equal_outputs_counts() -> None:
    shown = f"$ sinfo -R\n{REASONS}Kill task failed     root      2024-03-05T11:35:16 n1\n$ sinfo -R\n{REASONS}"
    assert slurm.probe(open_text(shown)) is None


SCRIPT = """\
#!/bin/bash
#SBATCH --partition=gpu
#SBATCH -N 2 --ntasks-per-node=4
#SBATCH --gres=gpu:a100:4
export OMP_NUM_THREADS=4
srun --cpu-bind=cores \\
    python train.py
"""


def request(text: str) -> SlurmRequest | None:
    found = slurm.probe(open_text(text))
    return found.request if found else None


def test_request_of_a_script() -> None:
    asked = request(SCRIPT)
    assert asked is not None
    assert (asked.gpus, asked.gpus_per_node, asked.nodes, asked.tasks, asked.tasks_per_node) == (True, 4, 2, None, 4)
    assert (asked.launcher, asked.by_srun, asked.ignored, asked.job_gpus) == ("python", True, False, None)
    assert asked.evidence["tasks_per_node"].line == 3


def test_request_without_gpus() -> None:
    for text in ("#SBATCH -p gpu\n#SBATCH --gres=none\n", "$ srun -p gpu --pty bash\n", "salloc -N1\n"):
        asked = request(text)
        assert asked is not None
        assert asked.gpus is False


def test_a_command_in_a_job_is_no_request() -> None:
    asked = request("srun hostname\n")
    assert asked is not None
    assert (asked.gpus, asked.by_srun) == (None, True)
    assert request("The word srun in prose, and sbatchers\n") is None


def test_directives_below_the_first_command_are_ignored() -> None:
    asked = request("#!/bin/sh\n#SBATCH -p gpu\nmodule load cuda\n#SBATCH --gpus=1\n")
    assert asked is not None
    assert asked.ignored is True
    plain = request("#!/bin/sh\n\n# comment\n#SBATCH --gpus=1\nmodule load cuda\n")
    assert plain is not None
    assert plain.ignored is False


def test_shell_after_salloc() -> None:
    granted = "[ann@hub ~]$ salloc --gpus=1\nsalloc: Granted job allocation 8\n"
    for text, stayed in (
        (granted + "[ann@hub ~]$ nvidia-smi\n", True),
        (granted + "(base) [ann@hub ~]$ nvidia-smi\n", True),
        (granted + "[ann@n12 ~]$ nvidia-smi\n", False),
        (granted + "[ann@hub ~]$ nvidia-smi\n[ann@hub ~]$ srun nvidia-smi\n", False),
        ("ann@hub:~/x$ salloc srun --pty bash\nsalloc: Granted job allocation 8\nann@hub:~/x$ date\n", False),
        ("$ salloc\nsalloc: Granted job allocation 8\n$ nvidia-smi\n", None),
    ):
        asked = request(text)
        assert asked is not None
        assert asked.shell_stayed is stayed, text


def test_gpus_of_the_job_record() -> None:
    for text, gpus in (
        ("   TRES=cpu=8,mem=64G,node=1,billing=8\n", 0),
        ("   ReqTRES=cpu=8,mem=64G,node=1,billing=8,gres/gpu=2\n   AllocTRES=cpu=8,gres/gpu=2\n", 2),
    ):
        asked = request(text)
        assert asked is not None
        assert asked.job_gpus == gpus
    assert request("   CfgTRES=cpu=128,mem=1030000M,billing=128\n") is None


def test_launcher_without_srun() -> None:
    asked = request("#SBATCH --nodes=2\n#SBATCH --gres=gpu:8\ntorchrun --nnodes=2 train.py\n")
    assert asked is not None
    assert (asked.launcher, asked.by_srun, asked.nodes) == ("torchrun", False, 2)


def test_waiting_until_it_starts() -> None:
    queued = "srun: job 7 queued and waiting for resources\n"
    asked = request(queued)
    assert asked is not None
    assert asked.waiting is True
    started = request(queued + "srun: job 7 has been allocated resources\n")
    assert started is not None
    assert started.waiting is False


def test_what_a_step_shows() -> None:
    listed = "GPU 0: NVIDIA A40 (UUID: GPU-1)\nGPU 1: NVIDIA A40 (UUID: GPU-2)\n"
    table = "|   0  NVIDIA A40          On  | 00000000:01:00.0 Off |       0 |\n"
    for text, shown in (
        ("$ srun --gres=gpu:1 nvidia-smi -L\n" + listed, 2),
        ("$ srun -n2 --gres=gpu:1 nvidia-smi -L\n" + listed[:32] + listed[:32], 1),
        ("$ srun -p gpu --gpus=1 --pty bash\n$ nvidia-smi\n" + table, 1),
        ("$ nvidia-smi -L\n" + listed + "$ srun --gres=gpu:1 python train.py\n", None),
    ):
        asked = request(text)
        assert asked is not None
        assert asked.gpus_shown == shown
