"""GPU models by PCI id, and the architecture of ids that the table does not have."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec

from gpudoctor.lazy import Lazy


class GpuModel(msgspec.Struct, frozen=True, kw_only=True):
    """One product. `None` is not known or not published; bandwidths are decimal GB/s.

    `nvlink_total_gbps` counts both directions. `first_driver_branch` and `last_driver_branch` are the oldest and the
    newest public Linux branch that drive it (`last` None: still driven). `dense_tflops` are catalogue figures without
    sparsity; `measured_matmul_tflops` the best public result of a matrix product.
    """

    slug: str
    names: list[str]
    pci_ids: list[str]
    segment: str  # datacenter, workstation, geforce, jetson, soc
    architecture: str
    chip: str | None = None
    compute_capability: str | None = None
    memory_gb: float | None = None
    memory_type: str | None = None
    memory_total_mib: int | None = None  # what nvidia-smi shows with the default ECC mode on R510 or newer
    memory_bandwidth_gbps: float | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    nvlink_version: float | None = None
    nvlink_links: int | None = None
    nvlink_total_gbps: float | None = None
    nvlink_attach: str | None = None  # board, bridge
    tdp_w: float | None = None
    temperature_style: str | None = None  # absolute, margin
    slowdown_c: float | None = None
    shutdown_c: float | None = None
    dense_tflops: dict[str, float] | None = None
    measured_matmul_tflops: dict[str, float] | None = None
    ecc: str | None = None
    mig_max_instances: int | None = None
    gsp: bool | None = None
    open_module_support: str | None = None  # required, supported, unsupported
    first_driver_branch: int | None = None
    last_driver_branch: int | None = None
    row_remap: bool | None = None
    page_retirement: bool | None = None
    error_containment: bool | None = None

    @property
    def product(self) -> str:
        """The name to show."""
        return self.names[0]


class ArchitectureSupport(msgspec.Struct, frozen=True):
    """What holds for a whole architecture: the driver branches that drive it and whether open modules can."""

    first_driver_branch: int | None
    last_driver_branch: int | None
    open_module_support: str


# Branches: NVIDIA's list of legacy GPUs and the release notes of each branch. Turing is the first with a GSP, without
# which the open modules cannot run; Blackwell is the first that the proprietary ones do not drive.
ARCHITECTURES: dict[str, ArchitectureSupport] = {
    "tesla": ArchitectureSupport(None, 340, "unsupported"),
    "fermi": ArchitectureSupport(None, 390, "unsupported"),
    "kepler": ArchitectureSupport(None, 470, "unsupported"),
    "maxwell": ArchitectureSupport(None, 580, "unsupported"),
    "pascal": ArchitectureSupport(367, 580, "unsupported"),
    "volta": ArchitectureSupport(384, 580, "unsupported"),
    "turing": ArchitectureSupport(410, None, "supported"),
    "ampere": ArchitectureSupport(450, None, "supported"),
    "ada": ArchitectureSupport(520, None, "supported"),
    "hopper": ArchitectureSupport(520, None, "supported"),
    "blackwell": ArchitectureSupport(570, None, "required"),
}

_CHIP_PREFIXES = {
    "GF": "fermi",
    "GK": "kepler",
    "GM": "maxwell",
    "GP": "pascal",
    "GV": "volta",
    "TU": "turing",
    "GA": "ampere",
    "AD": "ada",
    "GH": "hopper",
    "GB": "blackwell",
}
_CHIP = Lazy(r"\b(?:(GF|GK|GM|GP|GV|TU|GA|AD|GH|GB)\d[0-9A-F][0-9A-FXx]?|(?:G[89][0-9]|GT2\d\d))[A-Z]{0,3}\b")
_BRACKETS = Lazy(r"\[([^\]]+)\]")

# Device ids come in blocks, one per chip; the blocks of pci.ids from Kepler on (first, last, architecture).
_ID_BLOCKS = (
    (0x0FC0, 0x0FFF, "kepler"),
    (0x1000, 0x103F, "kepler"),
    (0x1180, 0x11FF, "kepler"),
    (0x1280, 0x12BF, "kepler"),
    (0x1340, 0x13FF, "maxwell"),
    (0x1400, 0x143F, "maxwell"),
    (0x15C0, 0x15FF, "pascal"),
    (0x1600, 0x167F, "maxwell"),
    (0x1740, 0x17FF, "maxwell"),
    (0x1B00, 0x1D7F, "pascal"),
    (0x1D80, 0x1DFF, "volta"),
    (0x1E00, 0x1FFF, "turing"),
    (0x2080, 0x20FF, "ampere"),
    (0x2180, 0x21FF, "turing"),
    (0x2200, 0x227F, "ampere"),
    (0x2300, 0x233F, "hopper"),
    (0x2400, 0x25FF, "ampere"),
    (0x2680, 0x28FF, "ada"),
    (0x2900, 0x297F, "blackwell"),
    (0x2B80, 0x2DFF, "blackwell"),
    (0x2F00, 0x2F7F, "blackwell"),
    (0x3180, 0x31FF, "blackwell"),
)
# Subsystems that tell products with one device id apart.
_SUBSYSTEMS = {("10de:25b6", "10de:157e"): "a2", ("10de:25b6", "10de:14a9"): "a16"}


@cache
def models() -> tuple[GpuModel, ...]:
    """Every model of the table."""
    data = Path(__file__).with_name("gpus.json").read_bytes()
    return tuple(msgspec.json.decode(data, type=list[GpuModel]))


@cache
def _by_id() -> dict[str, list[GpuModel]]:
    table: dict[str, list[GpuModel]] = {}
    for model in models():
        for pci_id in model.pci_ids:
            table.setdefault(pci_id, []).append(model)
    return table


def by_pci_id(pci_id: str | None, subsystem_id: str | None = None) -> GpuModel | None:
    """The model with this PCI id ("10de:20b2"). Of products that share an id the subsystem decides, else the first is meant.

    `None` for an id that the table does not have: never guess a product.
    """
    if pci_id is None:
        return None
    found = _by_id().get(pci_id.lower(), [])
    if not found:
        return None
    slug = _SUBSYSTEMS.get((pci_id.lower(), (subsystem_id or "").lower()))
    return next((model for model in found if model.slug == slug), found[0])


def by_lspci_name(name: str | None) -> GpuModel | None:
    """The model that lspci names without ids ("GA102GL [A10G]"); `None` where chip and name do not tell one."""
    match = _BRACKETS.search(name or "")
    chip = _CHIP.search(name or "")
    if match is None or chip is None:
        return None
    wanted = {match[1], f"NVIDIA {match[1]}", f"Tesla {match[1]}"}
    return next(
        (model for model in models() if model.chip and wanted & set(model.names) and chip[0].startswith(model.chip)),
        None,
    )


@cache
def first_branch_of_chip(name: str | None) -> int | None:
    """The oldest driver branch that drives any model with the chip in this name ("GA102"); `None` where none is known."""
    chip = _CHIP.search(name or "")
    if chip is None:
        return None
    found = [model.first_driver_branch for model in models() if model.chip and chip[0].startswith(model.chip)]
    known = [branch for branch in found if branch is not None]
    return min(known) if known else None


def product_name(pci_id: str | None, subsystem_id: str | None = None) -> str | None:
    """The product's name; all names, joined by " or ", where the id alone cannot tell products apart."""
    model = by_pci_id(pci_id, subsystem_id)
    if model is None or pci_id is None:
        return None
    if (pci_id.lower(), (subsystem_id or "").lower()) in _SUBSYSTEMS:
        return model.product
    return " or ".join(dict.fromkeys(found.product for found in _by_id()[pci_id.lower()]))


def architecture_of(pci_id: str | None, name: str | None = None) -> str | None:
    """The architecture by PCI id, by the block that the id lies in, or by a chip code in a name ("GA102 [GeForce RTX 3090]")."""
    model = by_pci_id(pci_id)
    if model is not None:
        return model.architecture
    if pci_id is not None and re.fullmatch(r"10de:[0-9a-f]{4}", pci_id.lower()):
        number = int(pci_id[5:], 16)
        for first, last, architecture in _ID_BLOCKS:
            if first <= number <= last:
                return architecture
    return architecture_of_chip(name)


def architecture_of_chip(name: str | None) -> str | None:
    """The architecture told by a chip code such as GA102 or GP104M in a name; `None` without one."""
    match = _CHIP.search(name or "")
    if match is None:
        return None
    return _CHIP_PREFIXES.get(match[1]) if match[1] else "tesla"
