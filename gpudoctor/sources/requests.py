"""The canonical requests. Probes ask with these; recognisers of foreign files and pasted text answer to them."""

from __future__ import annotations

UNAME_R = ("uname", "-r")
UNAME_A = ("uname", "-a")
NVIDIA_SMI = ("nvidia-smi",)
NVIDIA_SMI_L = ("nvidia-smi", "-L")
NVIDIA_SMI_Q = ("nvidia-smi", "-q")
NVIDIA_SMI_XML = ("nvidia-smi", "-q", "-x")
NVIDIA_SMI_TOPO = ("nvidia-smi", "topo", "-m")
NVIDIA_SMI_P2P_READ = ("nvidia-smi", "topo", "-p2p", "r")
NVIDIA_SMI_P2P_WRITE = ("nvidia-smi", "topo", "-p2p", "w")
NVIDIA_SMI_P2P_NVLINK = ("nvidia-smi", "topo", "-p2p", "n")
NVIDIA_SMI_NVLINK = ("nvidia-smi", "nvlink", "-s")
NVIDIA_SMI_NVLINK_ERRORS = ("nvidia-smi", "nvlink", "-e")
NVIDIA_SMI_QUERY_GPU = ("nvidia-smi", "--query-gpu")  # with any fields: pasted CSV
NVIDIA_SMI_QUERY_APPS = ("nvidia-smi", "--query-compute-apps")  # likewise
# A worker is a command too: the live source runs `python -m gpudoctor.workers.NAME`, recordings key it by this name.
WORKER_NVML = ("worker", "nvml_dump")
WORKER_NVML_SAMPLE = ("worker", "nvml_sample")
WORKER_BENCH = "bench_"  # + the test: the workers of active tests

DMESG = ("dmesg",)  # live: `dmesg` of this boot; any pasted dmesg
JOURNAL_KERNEL = ("journalctl", "-k", "-b", "-o", "short-iso", "--no-pager", "-q")
PACKAGE_LOGS = (  # files, in the order in which the first that says something counts
    "/var/log/apt/history.log",
    "/var/log/dpkg.log",
    "/var/log/dnf.rpm.log",
    "/var/log/yum.log",
    "/var/log/pacman.log",
    "/var/log/zypp/history",
)
SYSLOG = ("syslog",)  # a foreign syslog / kern.log file

LSPCI = ("lspci", "-nnDk")  # names; any pasted lspci without -vvv
LSPCI_VVV = ("lspci", "-nnDvvv")
LSMOD = ("lsmod",)
MODINFO_NVIDIA = ("modinfo", "nvidia")
MODPROBE_NVIDIA = ("modprobe", "nvidia")  # never run by us: pasted only
DKMS_STATUS = ("dkms", "status")
MOKUTIL_SB_STATE = ("mokutil", "--sb-state")
DPKG_LIST = ("dpkg", "-l")
RPM_LIST = ("rpm", "-qa")
PACMAN_LIST = ("pacman", "-Q")
GCC_VERSION = ("gcc", "--version")
NVCC_VERSION = ("nvcc", "--version")
LDCONFIG = ("ldconfig", "-p")
PIP_LIST = ("pip", "list")
ENV = ("env",)
ULIMIT = ("ulimit", "-a")
DF = ("df", "-h")
FREE = ("free", "-m")
ID = ("id",)
IPMI_EVENTS = ("ipmitool", "sel", "elist", "last", "60")  # any pasted `ipmitool sel`
CHRONY = ("chronyc", "-n", "tracking")
TIMEDATECTL = ("timedatectl",)
PROCESSES = ("ps", "aux")  # pasted only
LS_DEV_NVIDIA = ("ls", "-l", "/dev/nvidia*")
SYSTEMCTL_STATUS = ("systemctl", "status")  # + (unit,)
DETECT_VIRT = ("systemd-detect-virt",)

DOCKER_INFO = ("docker", "info")
DOCKER_VERSION = ("docker", "version")
PODMAN_INFO = ("podman", "info")
NVIDIA_CTK_VERSION = ("nvidia-ctk", "--version")
NVIDIA_CTK_CDI_LIST = ("nvidia-ctk", "cdi", "list")
NVIDIA_CONTAINER_CLI_INFO = ("nvidia-container-cli", "info")
SNAP_LIST = ("snap", "list")

KUBECTL_GET_NODES = ("kubectl", "get", "nodes", "-o", "json")
KUBECTL_DESCRIBE_NODE = ("kubectl", "describe", "node")
KUBECTL_DESCRIBE_POD = ("kubectl", "describe", "pod")
KUBECTL_NODES_TABLE = ("kubectl", "get", "nodes")
KUBECTL_GET_PODS = ("kubectl", "get", "pods")
KUBECTL_GET_EVENTS = ("kubectl", "get", "events")
SCONTROL_SHOW_NODE = ("scontrol", "show", "node")
SINFO = ("sinfo",)

IBSTAT = ("ibstat",)
IP_ADDR = ("ip", "addr")
IP_ROUTE = ("ip", "route")
NCCL_TESTS = ("nccl-tests",)  # output of any nccl-tests binary
NCCL_DEBUG_LOG = ("nccl-debug",)
TORCH_DISTRIBUTED_LOG = ("torch-distributed-log",)  # lines of PyTorch's watchdog and Flight Recorder
COLLECT_ENV = ("python", "-m", "torch.utils.collect_env")
TORCH_CHECK = ("python", "torch-check")  # pasted `python -c "import torch; ..."`
DCGMI_DIAG = ("dcgmi", "diag")
DCGMI_DISCOVERY = ("dcgmi", "discovery", "-l")
NVLINK_STATUS = NVIDIA_SMI_NVLINK
FABRIC_MANAGER_LOG = ("fabricmanager.log",)
FABRIC_MANAGER_STATUS = ("systemctl", "status", "nvidia-fabricmanager")


# An argument that starts with this is not passed on: it names the occasion, so that the same command, run again later in
# one session, is another request ("dmesg", "#after memory") with an answer of its own.
LABEL = "#"


def without_labels(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command that is run."""
    return tuple(part for part in argv if not part.startswith(LABEL))


def labelled(argv: tuple[str, ...], label: str) -> tuple[str, ...]:
    """The same command on another occasion."""
    return (*argv, LABEL + label)


def is_bench_worker(argv: tuple[str, ...]) -> bool:
    """Whether this is a worker of active tests."""
    return len(argv) > 1 and argv[0] == "worker" and argv[1].startswith(WORKER_BENCH)
