"""What the kernel says and logged."""

from gpudoctor.facts.base import Fact


class Xid(Fact, frozen=True, kw_only=True):
    """One Xid line, or a burst of equal ones (`count`). Time as the log gave it, normalised to ISO 8601 where possible."""

    code: int
    bdf: str | None = None  # 0000:3b:00
    time: str | None = None
    seconds: float | None = None  # since boot, where the log has it
    pid: int | None = None
    process: str | None = None
    text: str = ""  # what follows the code
    count: int = 1
    boot: int | None = None  # 0 this boot, -1 the one before
    mig: str | None = None
    recovery: str | None = None  # Xid 154: the recovery action's words
    name: str | None = None
    blame: str | None = None  # application, driver, hardware, bus, system_memory, thermal, fabric, unknown
    meaning: str | None = None  # from the catalogue, for this architecture and driver branch; so are the next ones
    advice: str | None = None
    severity: str | None = None  # critical, error, warning, info: by the number and by what the line's words say
    decoded: str | None = None  # what the rest of the line says, as a sentence
    vendor_action: str | None = None  # the vendor's action class, in words
    last_time: str | None = None  # time of a burst's last line


class SXid(Fact, frozen=True, kw_only=True):
    code: int
    bdf: str | None = None
    switch: int | None = None
    time: str | None = None
    severity: str | None = None  # fatal, non-fatal
    link: int | None = None
    text: str = ""
    count: int = 1
    meaning: str | None = None  # from the catalogue; so are the next ones
    advice: str | None = None
    weight: str | None = None  # critical, error, warning, info: the line's severity word before the table
    boot: int | None = None  # 0 this boot, -1 the one before
    last_time: str | None = None


class KernelEvent(Fact, frozen=True, kw_only=True):
    """An AER, MCE, EDAC, OOM, I/O or other line of the kernel log."""

    kind: str
    bdf: str | None = None
    severity: str | None = None
    time: str | None = None
    text: str = ""
    process: str | None = None
    pid: int | None = None
    count: int = 1
    boot: int | None = None  # 0 this boot, -1 the one before
    last_time: str | None = None


class NvrmMessage(Fact, frozen=True, kw_only=True):
    """An NVRM line that is not an Xid, such as an RmInitAdapter failure; `id` names the known family."""

    id: str | None = None
    bdf: str | None = None
    time: str | None = None
    text: str = ""
    count: int = 1
    boot: int | None = None  # 0 this boot, -1 the one before
    seconds: float | None = None  # since boot, where the log has it
    last_time: str | None = None


class Kernel(Fact, frozen=True, kw_only=True):
    """The kernel log and what the kernel says of itself."""

    cmdline: str | None = None
    modules: list[str] | None = None
    log_complete: bool | None = None  # false: filtered by grep or wrapped, so absence proves nothing
    xids: list[Xid] | None = None
    sxids: list[SXid] | None = None
    nvrm: list[NvrmMessage] | None = None
    aer: list[KernelEvent] | None = None
    mce: list[KernelEvent] | None = None
    oom_kills: list[KernelEvent] | None = None
    io_errors: list[KernelEvent] | None = None
    other: list[KernelEvent] | None = None  # panics, hung tasks, IOMMU faults, PCIe bandwidth limits, ...
    tainted: str | None = None
