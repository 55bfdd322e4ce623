"""How GPUs and nodes are joined: topology, NCCL, network; and DCGM, which tests it."""

from gpudoctor.facts.base import Fact


class TopologyLink(Fact, frozen=True, kw_only=True):
    a: str
    b: str
    kind: str  # NV18, PIX, PXB, PHB, NODE, SYS


class PeerCopyTest(Fact, frozen=True, kw_only=True):
    """The slowest pair of GPUs in the matrices of p2pBandwidthLatencyTest, one direction, GB/s."""

    without_p2p_gbps: float | None = None
    with_p2p_gbps: float | None = None


class Topology(Fact, frozen=True, kw_only=True):
    gpus: list[str] | None = None
    nics: list[str] | None = None
    nic_names: dict[str, str] | None = None  # NIC0 -> mlx5_0, from the legend
    links: list[TopologyLink] | None = None  # each pair once
    cpu_affinity: dict[str, str] | None = None
    numa_affinity: dict[str, str] | None = None
    ancestors: list[TopologyLink] | None = (
        None  # by NVML: the nearest common bridge of two GPUs, PIX to SYS, whatever NVLinks
    )
    # whether one GPU may read, write, or reach over NVLink the other: OK, NS (not supported), CNS (chipset), GNS (GPU),
    # TNS (topology), DR (switched off), U (unknown); each pair once
    p2p_read: list[TopologyLink] | None = None
    p2p_write: list[TopologyLink] | None = None
    p2p_nvlink: list[TopologyLink] | None = None
    p2p_test: PeerCopyTest | None = None


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
    separate_runs: int | None = (
        None  # processes that each call themselves rank 0: built without MPI, each tests alone
    )
    model: str | None = None  # slug of the GPUs' model, when all are of one
    largest_size_bytes: int | None = None
    best_busbw_gbps: float | None = None  # of the sizes that can be judged
    # how it compares: normal, ring (right for a ring, but the switches did not reduce), low; None: not judged
    verdict: str | None = None
    why_unjudged: str | None = None
    expected_for: str | None = None  # what the expectation is about: "8 x H100 SXM"
    expected_low_gbps: float | None = None  # what such GPUs usually give
    expected_high_gbps: float | None = None
    pass_busbw_gbps: float | None = None  # below this something is wrong
    expectation_basis: str | None = None
    expectation_source: str | None = None
    line_rate_gbps: float | None = None  # one direction of the link that bounds it


class NcclPair(Fact, frozen=True, kw_only=True):
    """The way from one rank to another, as NCCL chose it: P2P/CUMEM, SHM/direct, NET/IB/0/GDRDMA, ..."""

    a: int
    b: int
    transport: str


class NcclWork(Fact, frozen=True, kw_only=True):
    """How far one rank came by PyTorch's watchdog: the collective it waited in, and the last that it started and finished."""

    rank: int
    group: str | None = None  # process group
    sequence: int | None = None  # of the collective that timed out
    operation: str | None = None  # ALLREDUCE, ...
    elements: int | None = None
    waited_ms: int | None = None
    last_enqueued: int | None = None
    last_completed: int | None = None


class Launch(Fact, frozen=True, kw_only=True):
    """The variables of torch.distributed in an environment, and what of them cannot be."""

    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    local_world_size: int | None = None
    master_addr: str | None = None
    master_port: int | None = None
    master_is_loopback: bool | None = None
    gpus_visible: int | None = None  # to a process with this environment
    # rank_beyond_world_size, local_rank_beyond_gpus, local_rank_beyond_local_world_size, more_processes_than_gpus,
    # local_world_size_beyond_world_size, master_is_loopback, master_port_out_of_range, missing_..., ..._not_a_number
    problems: list[str] | None = None


class Nccl(Fact, frozen=True, kw_only=True):
    version: str | None = None
    tests: list[NcclTest] | None = None
    transports: list[str] | None = None  # NET/IB, NET/Socket, P2P/CUMEM, SHM, ...
    interfaces: list[str] | None = None
    env: dict[str, str] | None = None
    config_files: dict[str, str] | None = None  # variables set by /etc/nccl.conf or ~/.nccl.conf
    # what holds for a job: env, else the environment, else config_files; NCCL_* only
    settings: dict[str, str] | None = None
    left_over: list[str] | None = None  # settings of a search for faults that are still on: "NCCL_P2P_DISABLE=1"
    tuned: list[str] | None = None  # settings of tuning: "NCCL_BUFFSIZE=8388608"
    interfaces_selected: list[str] | None = None  # that NCCL_SOCKET_IFNAME leaves of those that exist
    hcas_selected: list[str] | None = None  # mlx5_0:1, ...: that NCCL_IB_HCA leaves of those that exist
    hcas_down: list[str] | None = None  # of those, ports that are not active
    hcas_unmatched: list[str] | None = None  # items of NCCL_IB_HCA that no device matches
    launch: Launch | None = None
    versions: list[str] | None = None  # every version that a rank named
    network: str | None = None  # IB, Socket, AWS Libfabric, ...: "Using network"
    hcas: list[str] | None = None  # mlx5_0:1, ... that NCCL uses
    hca_rates_gbit: list[float] | None = None  # by NCCL's own reading, same order where it names them
    pairs: list[NcclPair] | None = None
    rank_count: int | None = None  # of the largest communicator
    node_count: int | None = None
    ranks_started: list[int] | None = None  # of that communicator: began, finished initialising
    ranks_ready: list[int] | None = None
    ranks_absent: list[int] | None = (
        None  # never began although others wait; only where several ranks' logs are there
    )
    channels: int | None = None  # rings and trees
    nvls_available: bool | None = None  # in-switch reduction
    nvls_channels: int | None = None
    gpu_direct_rdma: bool | None = None  # the network cards read GPU memory
    p2p_refused: list[str] | None = None  # "1-0": GPUs between which P2P is off
    works: list[NcclWork] | None = None  # by PyTorch's watchdog
    ranks_behind: list[int] | None = (
        None  # did not come as far as the others; from watchdog, desync report or Flight Recorder
    )
    all_at_same_work: bool | None = None  # every rank of the job waits in the same collective
    mismatches: list[str] | None = None  # what ranks called differently, by the Flight Recorder's analyser


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
    bdf: str | None = None
    numa_node: int | None = None
    driver: str | None = None  # mlx5_core, efa, bnxt_re, irdma, ...
    interfaces: list[str] | None = None  # network interfaces of the same card
    errors: dict[str, int] | None = (
        None  # symbol_error, port_rcv_errors, link_downed, ...: since they were last cleared
    )


class Network(Fact, frozen=True, kw_only=True):
    rdma_ports: list[RdmaPort] | None = None
    rdma_device_nodes: list[str] | None = None  # under /dev/infiniband: without uverbs* no program opens a port
    interfaces: list[str] | None = None
    routes_overlapping: list[str] | None = None  # connected IPv4 networks that overlap on different interfaces
