"""Every fact type: frozen values with units in their names. `None` always means "not known".

Names are a contract: `gpudoctor facts --format json` prints them and rules refer to them. Add freely, rename never.
Each fact value carries `evidence`: for a field name (or "" for the whole value) the request, line and text it was read from.
"""

from gpudoctor.facts.base import Evidence, Fact, fill, plain
from gpudoctor.facts.bench import Bench, BenchFault, BenchFigure, BenchRun, CounterChange, LoadSeen, ThrottleSeen
from gpudoctor.facts.container import Container, InjectedLibrary, Runtime
from gpudoctor.facts.cuda import Cuda, Framework, Library
from gpudoctor.facts.document import Document, DocumentKind
from gpudoctor.facts.driver import DeviceNode, DkmsModule, Driver, Package, PackageEvent
from gpudoctor.facts.gpu import Gpu, GpuProcess, NvLink
from gpudoctor.facts.host import BmcEvent, Host
from gpudoctor.facts.interconnect import (
    Dcgm,
    DcgmResult,
    Launch,
    Nccl,
    NcclPair,
    NcclRow,
    NcclTest,
    NcclWork,
    Network,
    PeerCopyTest,
    RdmaPort,
    Topology,
    TopologyLink,
)
from gpudoctor.facts.job import Expectation, OutOfMemory, Training
from gpudoctor.facts.kernel import Kernel, KernelEvent, NvrmMessage, SXid, Xid
from gpudoctor.facts.pci import Pci, PciDevice
from gpudoctor.facts.scheduler import Kubernetes, KubernetesNode, KubernetesPod, Slurm, SlurmNode, SlurmRequest

__all__ = [
    "Bench",
    "BenchFault",
    "BenchFigure",
    "BenchRun",
    "BmcEvent",
    "Container",
    "CounterChange",
    "Cuda",
    "Dcgm",
    "DcgmResult",
    "DeviceNode",
    "DkmsModule",
    "Document",
    "DocumentKind",
    "Driver",
    "Evidence",
    "Expectation",
    "Fact",
    "Facts",
    "Framework",
    "Gpu",
    "GpuProcess",
    "Host",
    "InjectedLibrary",
    "Kernel",
    "KernelEvent",
    "Kubernetes",
    "KubernetesNode",
    "KubernetesPod",
    "Launch",
    "Library",
    "LoadSeen",
    "Nccl",
    "NcclPair",
    "NcclRow",
    "NcclTest",
    "NcclWork",
    "Network",
    "NvLink",
    "NvrmMessage",
    "OutOfMemory",
    "Package",
    "PackageEvent",
    "Pci",
    "PciDevice",
    "PeerCopyTest",
    "RdmaPort",
    "Runtime",
    "SXid",
    "Slurm",
    "SlurmNode",
    "SlurmRequest",
    "ThrottleSeen",
    "Topology",
    "TopologyLink",
    "Training",
    "Xid",
    "fill",
    "plain",
]


class Facts(Fact, frozen=True, kw_only=True):
    """All facts; a group is None when its probe had no evidence."""

    host: Host | None = None
    pci: Pci | None = None
    driver: Driver | None = None
    gpus: list[Gpu] | None = None
    kernel: Kernel | None = None
    cuda: Cuda | None = None
    frameworks: list[Framework] | None = None
    topology: Topology | None = None
    nccl: Nccl | None = None
    network: Network | None = None
    dcgm: Dcgm | None = None
    container: Container | None = None
    runtime: Runtime | None = None
    kubernetes: Kubernetes | None = None
    slurm: Slurm | None = None
    training: Training | None = None
    bench: Bench | None = None
    expect: Expectation | None = None
