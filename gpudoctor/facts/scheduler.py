"""Kubernetes and Slurm."""

from gpudoctor.facts.base import Fact


class KubernetesNode(Fact, frozen=True, kw_only=True):
    name: str
    capacity_gpu: int | None = None
    allocatable_gpu: int | None = None
    allocated_gpu: int | None = None
    ready: bool | None = None
    unschedulable: bool | None = None
    taints: list[str] | None = None
    labels: dict[str, str] | None = None
    runtime_version: str | None = None
    kubelet_version: str | None = None
    kernel_version: str | None = None
    os_image: str | None = None
    capacity_resources: dict[str, int] | None = None  # every nvidia.com/... resource, MIG and .shared ones too
    allocatable_resources: dict[str, int] | None = None
    allocated_resources: dict[str, int] | None = None
    problems: list[str] | None = None  # conditions that are bad: "DiskPressure", "Ready: container runtime is down"
    runtime_handlers: list[str] | None = None  # runtime handlers that the kubelet reports: runc, nvidia, ...
    device_plugin_pods: list[str] | None = None  # pods on the node whose name says NVIDIA device plugin


class KubernetesPod(Fact, frozen=True, kw_only=True):
    name: str
    namespace: str | None = None
    node: str | None = None
    phase: str | None = None
    requested_gpu: int | None = None
    reason: str | None = None
    message: str | None = None
    runtime_class: str | None = None
    requested_resources: dict[str, int] | None = None  # limits of nvidia.com/... resources, summed over containers
    status: str | None = None  # the word kubectl prints: Running, CrashLoopBackOff, Init:0/1, ...
    ready: bool | None = None
    restarts: int | None = None
    exit_code: int | None = None  # of the last container that ended badly
    container_reason: str | None = None  # OOMKilled, Error, CrashLoopBackOff, ...


class Kubernetes(Fact, frozen=True, kw_only=True):
    nodes: list[KubernetesNode] | None = None
    pods: list[KubernetesPod] | None = None
    container_limits: list[int] | None = None  # GPU limit of each container of a pasted pod that has one
    misplaced_sharing: list[str] | None = None  # time-slicing settings that stand under flags, where they are ignored


class SlurmNode(Fact, frozen=True, kw_only=True):
    name: str
    gres: str | None = None
    gres_used: str | None = None
    state: str | None = None
    reason: str | None = None
    cfg_tres: str | None = None
    alloc_tres: str | None = None
    partitions: str | None = None
    gpus: int | None = None  # GPUs in Gres=; 0 when the node has no GPU gres
    gpus_in_tres: int | None = None  # gres/gpu of CfgTRES; 0 when it is not counted there
    gpus_allocated: int | None = None
    version: str | None = None  # slurmd
    boot_time: str | None = None
    reason_by: str | None = None  # user who set the reason; "slurm" or "root" when the controller did
    reason_time: str | None = None
    reason_alone: bool | None = None  # a reason without a state: `sinfo -R` lists only nodes out of service


class SlurmRequest(Fact, frozen=True, kw_only=True):
    """What a job asked for, by its pasted batch script, srun, salloc or sbatch command, and its own record."""

    gpus: bool | None = None  # whether GPUs are asked for anywhere in the texts that hold a request
    gpus_per_node: int | None = None
    nodes: int | None = None
    tasks: int | None = None  # --ntasks
    tasks_per_node: int | None = None
    job_gpus: int | None = None  # of TRES= in `scontrol show job`
    launcher: str | None = None  # what starts the program: torchrun, accelerate, deepspeed, mpirun, mpiexec, python
    by_srun: bool | None = None  # whether srun starts that
    ignored: bool | None = None  # a GPU directive stands below the script's first command, where sbatch ignores it
    gpus_shown: int | None = None  # by nvidia-smi in a step or an interactive job
    waiting: bool | None = None  # srun or salloc said that the job is queued; false once it got its nodes
    shell_stayed: bool | None = None  # after salloc the prompt is the same host's and neither srun nor ssh follows


class Slurm(Fact, frozen=True, kw_only=True):
    nodes: list[SlurmNode] | None = None
    request: SlurmRequest | None = None
