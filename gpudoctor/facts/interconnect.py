"""How GPUs and nodes are joined: topology, NCCL, network; and DCGM, which tests it."""

from __future__ import annotations

from gpudoctor.facts.base import Fact


class TopologyLink(Fact, frozen=True, kw_only=True):
    a: str
    b: str
    kind: str  # NV18, PIX, PXB, PHB, NODE, SYS


class Topology(Fact, frozen=True, kw_only=True):
    gpus: list[str] | None = None
    nics: list[str] | None = None
    nic_names: dict[str, str] | None = None  # NIC0 -> mlx5_0, from the legend
    links: list[TopologyLink] | None = None  # each pair once
    cpu_affinity: dict[str, str] | None = None
    numa_affinity: dict[str, str] | None = None


class NcclRow(Fact, frozen=True, kw_only=True):
    size_bytes: int
    count: int | None = None
    dtype: str | None = None
    time_us: float | None = None
    algbw_gbps: float | None = None  # GB/s, as nccl-tests prints
    busbw_gbps: float | None = None
    errors: int | None = None
    in_place: bool | None = None


class NcclTest(Fact, frozen=True, kw_only=True):
    collective: str | None = None
    ranks: int | None = None
    nodes: int | None = None  # hosts in the device list
    rows: list[NcclRow] | None = None
    avg_busbw_gbps: float | None = None
    out_of_bounds: int | None = None
    version: str | None = None
    devices: list[str] | None = None


class Nccl(Fact, frozen=True, kw_only=True):
    version: str | None = None
    tests: list[NcclTest] | None = None
    transports: list[str] | None = None  # NET/IB, NET/Socket, P2P/CUMEM, SHM, ...
    interfaces: list[str] | None = None
    env: dict[str, str] | None = None


class DcgmResult(Fact, frozen=True, kw_only=True):
    """One line of a DCGM diagnostic."""

    test: str  # "GPU Memory", "Error", "Warning", ...
    result: str  # pass, fail, warn, skip; the words for Error and Warning
    gpus: list[int] | None = None
    message: str | None = None


class Dcgm(Fact, frozen=True, kw_only=True):
    """What DCGM says: its diagnostic's results and how many GPUs it discovered."""

    version: str | None = None
    driver_version: str | None = None
    results: list[DcgmResult] | None = None
    gpu_count: int | None = None


class RdmaPort(Fact, frozen=True, kw_only=True):
    device: str
    ca_type: str | None = None  # MT4129
    port: int | None = None
    state: str | None = None
    physical_state: str | None = None
    rate_gbps: float | None = None
    link_layer: str | None = None
    firmware: str | None = None


class Network(Fact, frozen=True, kw_only=True):
    rdma_ports: list[RdmaPort] | None = None
    interfaces: list[str] | None = None
    routes_overlapping: list[str] | None = None  # connected IPv4 networks that overlap on different interfaces
