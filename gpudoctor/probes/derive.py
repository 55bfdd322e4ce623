"""Facts that follow from several groups. Each derivation takes all facts and returns them with more known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from gpudoctor.facts import Cuda, Driver, Evidence, Facts, Gpu, Pci, PciDevice
from gpudoctor.knowledge import driver_branches, gpus
from gpudoctor.probes.derive_address import lost_gpu_address
from gpudoctor.probes.derive_launch import nccl_settings
from gpudoctor.probes.derive_topology import acs_above_gpus, links_by_nvml, nvlink_counts, processes_far_from_gpus
from gpudoctor.probes.derive_xids import xid_meanings
from gpudoctor.probes.merge_gpus import normal_bdf


def pci_from_gpus(facts: Facts) -> Facts:
    """The GPUs that the driver answers for are on the bus, also where nothing, or only a log, shows it."""
    pci = facts.pci or Pci()
    elsewhere = facts.host is not None and (facts.host.is_wsl or facts.host.is_tegra)
    if elsewhere and pci.nvidia_devices == []:
        # WSL's GPUs are not on its PCI bus, a Tegra's is in the chip: not seeing them there proves nothing.
        pci = msgspec.structs.replace(pci, nvidia_devices=None)
        return msgspec.structs.replace(facts, pci=pci)
    # A bus that was seen whole holds, unless it is empty in spite of GPUs that answer (sandboxes hide it).
    seen_whole = "nvidia_devices" in pci.evidence and bool(pci.nvidia_devices)
    answering = [gpu for gpu in facts.gpus or [] if not gpu.lost]
    if elsewhere or seen_whole or any(normal_bdf(gpu.bdf) is None for gpu in answering):
        return facts
    known = {device.bdf for device in pci.nvidia_devices or []}
    added = [_device_of(gpu) for gpu in answering if normal_bdf(gpu.bdf) not in known]
    if not added:
        return facts
    devices = sorted([*(pci.nvidia_devices or []), *added], key=lambda device: device.bdf)
    return msgspec.structs.replace(facts, pci=msgspec.structs.replace(pci, nvidia_devices=devices))


def _device_of(gpu: Gpu) -> PciDevice:
    evidence = gpu.evidence.get("bdf") or gpu.evidence.get("")
    return PciDevice(
        bdf=normal_bdf(gpu.bdf) or "",
        device_id=gpu.device_id,
        name=gpu.name,
        evidence={"": evidence} if evidence else {},
    )


def pci_models(facts: Facts) -> Facts:
    """What the PCI id tells: product, architecture, driver branches, whether open modules can drive it."""
    if facts.pci is None or not facts.pci.nvidia_devices:
        return facts
    devices = [_with_model(device) for device in facts.pci.nvidia_devices]
    return msgspec.structs.replace(facts, pci=msgspec.structs.replace(facts.pci, nvidia_devices=devices))


def _with_model(device: PciDevice) -> PciDevice:
    model = gpus.by_pci_id(device.device_id, device.subsystem_id)
    if model is None and device.device_id is None:
        model = gpus.by_lspci_name(device.name)
    architecture = gpus.architecture_of(device.device_id, device.name)
    support = gpus.ARCHITECTURES.get(architecture or "")
    values: dict[str, Any] = {
        "product": gpus.product_name(device.device_id, device.subsystem_id),
        "name": gpus.product_name(device.device_id, device.subsystem_id),
        "architecture": architecture,
    }
    if model is not None:
        values |= {
            "open_module_support": model.open_module_support,
            "first_driver_branch": model.first_driver_branch,
            "last_driver_branch": model.last_driver_branch,
        }
    elif support is not None:
        values |= {
            "open_module_support": support.open_module_support,
            "first_driver_branch": gpus.first_branch_of_chip(device.name) or support.first_driver_branch,
            "last_driver_branch": support.last_driver_branch,
        }
    known = {name: value for name, value in values.items() if value is not None and getattr(device, name) is None}
    return msgspec.structs.replace(device, **known) if known else device


def gpu_models(facts: Facts) -> Facts:
    """The architecture of GPUs whose source did not name it."""
    if not facts.gpus or all(gpu.architecture for gpu in facts.gpus):
        return facts
    done = []
    for gpu in facts.gpus:
        architecture = gpu.architecture or gpus.architecture_of(gpu.device_id)
        done.append(msgspec.structs.replace(gpu, architecture=architecture) if architecture else gpu)
    return msgspec.structs.replace(facts, gpus=done)


def _replace_driver(facts: Facts, values: dict[str, Any], evidence: dict[str, Evidence]) -> Facts:
    """Sets what is not known yet."""
    driver = facts.driver or Driver()
    new = {name: value for name, value in values.items() if value is not None and getattr(driver, name) is None}
    if not new:
        return facts
    proofs = dict(driver.evidence) | {name: evidence[name] for name in new if name in evidence}
    return msgspec.structs.replace(facts, driver=msgspec.structs.replace(driver, **new, evidence=proofs))


def driver_loaded(facts: Facts) -> Facts:
    """A driver that answers for a GPU is loaded; a device bound to it too."""
    evidence: dict[str, Evidence] = {}
    answering = [gpu for gpu in facts.gpus or [] if not gpu.lost]
    if answering:
        proof = answering[0].evidence.get("") or answering[0].evidence.get("name")
        if proof:
            evidence["loaded"] = proof
        return _replace_driver(facts, {"loaded": True}, evidence)
    devices = facts.pci.nvidia_devices or [] if facts.pci is not None else []
    bound = next((device for device in devices if device.driver_in_use == "nvidia"), None)
    if bound is not None:
        proof = bound.evidence.get("driver_in_use") or bound.evidence.get("")
        return _replace_driver(facts, {"loaded": True}, {"loaded": proof} if proof else {})
    return facts


def driver_bindings(facts: Facts) -> Facts:
    """Which other driver holds the GPUs."""
    devices = facts.pci.nvidia_devices or [] if facts.pci is not None else []
    drivers = {device.driver_in_use: device for device in devices if device.driver_in_use is not None}
    if not drivers:
        return facts
    evidence = {}
    values: dict[str, Any] = {"vfio_bound": any("vfio" in name for name in drivers)}
    for name, device in drivers.items():
        proof = device.evidence.get("driver_in_use") or device.evidence.get("")
        if proof is None:
            continue
        if "vfio" in name:
            evidence["vfio_bound"] = proof
        elif name == "nouveau":
            values["nouveau_loaded"], evidence["nouveau_loaded"] = True, proof
    return _replace_driver(facts, values, evidence)


# Which package's version is the driver's user-space version, best first.
_LIBRARY_PACKAGES = (
    "libnvidia-ml1",
    "libnvidia-compute-",
    "nvidia-driver-libs",
    "nvidia-driver-cuda-libs",
    "nvidia-utils",
    "libcuda1",
    "nvidia-compute-utils",
    "nvidia-smi",
    "xorg-x11-drv-nvidia-cuda",
    "nvidia-driver-cuda",
    "nvidia-driver",
)


def driver_versions(facts: Facts) -> Facts:
    """`version` from whatever told it: the loaded module, the module on disk, DKMS, libraries, packages; and its branch."""
    driver = facts.driver
    if driver is None:
        return facts
    packages = [
        package
        for package in driver.packages or []
        if package.driver_version and package.state not in ("config-files", "not-installed")
    ]
    library = next((p for prefix in _LIBRARY_PACKAGES for p in packages if p.name.startswith(prefix)), None)
    if library is not None:
        proof = {"library_version": library.evidence[""]} if "" in library.evidence else {}
        facts = _replace_driver(facts, {"library_version": library.driver_version}, proof)
    driver = facts.driver or driver
    candidates: list[tuple[str | None, Evidence | None]] = [
        (driver.kernel_module_version, driver.evidence.get("kernel_module_version")),
        (driver.module_on_disk_version, driver.evidence.get("module_on_disk_version")),
    ]
    candidates += [(entry.version, entry.evidence.get("")) for entry in driver.dkms or []]
    candidates.append((driver.library_version, driver.evidence.get("library_version")))
    candidates += [(package.driver_version, package.evidence.get("")) for package in packages]
    chosen = next(((version, proof) for version, proof in candidates if version), (None, None))
    evidence = {"version": chosen[1]} if chosen[1] is not None else {}
    facts = _replace_driver(facts, {"version": chosen[0]}, evidence)
    branch = driver_branches.branch_of(facts.driver.version) if facts.driver is not None else None
    ends = {"branch": branch, "branch_end_of_life": driver_branches.ended_by(branch)}
    return _replace_driver(facts, ends, {})


def driver_installed(facts: Facts) -> Facts:
    """Whether there is any trace of a driver; false only where every place that could have one was seen."""
    driver = facts.driver
    if driver is None:
        return facts
    dead = ("config-files", "not-installed")
    packages = [p for p in driver.packages or [] if p.driver_version and p.state not in dead]
    traces: list[tuple[object, Evidence | None]] = [
        (driver.loaded, driver.evidence.get("loaded")),
        (driver.kernel_module_version, driver.evidence.get("kernel_module_version")),
        (driver.module_for_running_kernel, driver.evidence.get("module_for_running_kernel")),
        (driver.module_on_disk_kernels, driver.evidence.get("module_on_disk_kernels")),
        (driver.dkms, driver.dkms[0].evidence.get("") if driver.dkms else None),
        (packages, packages[0].evidence.get("") if packages else None),
        (driver.library_versions, driver.evidence.get("library_version")),
        (driver.install_method in ("runfile", "wsl", "container"), driver.evidence.get("install_method")),
    ]
    trace = next((proof for value, proof in traces if value), None)
    if any(value for value, _ in traces):
        return _replace_driver(facts, {"installed": True}, {"installed": trace} if trace else {})
    inside = facts.host is not None and facts.host.in_container
    looked = [driver.module_on_disk_kernels, driver.library_versions, driver.loaded]
    if not inside and all(value is not None for value in looked):
        words = "no module, no library, no package of the driver found"
        evidence = {"installed": Evidence(source="driver files", text=words)}
        return _replace_driver(facts, {"installed": False}, evidence)
    return facts


def wsl_driver(facts: Facts) -> Facts:
    """WSL has no NVIDIA kernel module: the driver is Windows'. That none is loaded says nothing there."""
    if facts.host is None or not facts.host.is_wsl or facts.driver is None or facts.driver.loaded is not False:
        return facts
    evidence = {name: proof for name, proof in facts.driver.evidence.items() if name != "loaded"}
    return msgspec.structs.replace(
        facts, driver=msgspec.structs.replace(facts.driver, loaded=None, evidence=evidence)
    )


def nodes_missing(facts: Facts) -> Facts:
    """Device nodes that a loaded driver should have and /dev does not; in a container, which may be given a part, only kinds of which none is there."""
    driver = facts.driver
    if driver is None or driver.device_nodes is None or not driver.loaded:
        return facts
    if facts.host is not None and facts.host.is_wsl:
        return facts
    present = {node.path for node in driver.device_nodes}
    inside = facts.host is not None and facts.host.in_container
    minors = [gpu.minor for gpu in facts.gpus or [] if gpu.minor is not None]
    devices = facts.pci.nvidia_devices or [] if facts.pci is not None else []
    if not minors:
        minors = list(range(sum(1 for device in devices if device.driver_in_use in ("nvidia", None))))
    expected = ["/dev/nvidiactl"]
    has_some = any(path.removeprefix("/dev/nvidia").isdecimal() for path in present)
    if not (inside and has_some):
        expected += [f"/dev/nvidia{minor}" for minor in minors]
    if driver.uvm_loaded or inside:
        expected.append("/dev/nvidia-uvm")
    missing = [path for path in expected if path not in present]
    proof = driver.evidence.get("device_nodes")
    return _replace_driver(facts, {"nodes_missing": missing}, {"nodes_missing": proof} if proof else {})


_FIRST_BRANCH_WITH_CUDA = 410  # drivers before it do not say a CUDA version themselves


def cuda_of_driver(facts: Facts) -> Facts:
    """The highest CUDA version that the driver's branch runs, where nobody else said it."""
    if facts.driver is None or (facts.cuda is not None and facts.cuda.driver_cuda_version):
        return facts
    branch = driver_branches.by_number(facts.driver.branch)
    if branch is None or branch.cuda is None or branch.branch < _FIRST_BRANCH_WITH_CUDA:
        return facts
    cuda = facts.cuda or Cuda()
    evidence = dict(cuda.evidence)
    if "version" in facts.driver.evidence:
        evidence["driver_cuda_version"] = facts.driver.evidence["version"]
    return msgspec.structs.replace(
        facts, cuda=msgspec.structs.replace(cuda, driver_cuda_version=branch.cuda, evidence=evidence)
    )


def nccl_expectations_of(facts: Facts) -> Facts:
    """Holds each test against the published figures of its GPUs."""
    if facts.nccl is None or not facts.nccl.tests:
        return facts
    from gpudoctor.probes.derive_nccl import judged

    tests = [msgspec.structs.replace(test, **judged(facts, test)) for test in facts.nccl.tests]
    return msgspec.structs.replace(facts, nccl=msgspec.structs.replace(facts.nccl, tests=tests))


# In this order: later ones use what earlier ones found.
DERIVATIONS: tuple[Callable[[Facts], Facts], ...] = (
    lost_gpu_address,
    pci_from_gpus,
    pci_models,
    gpu_models,
    driver_loaded,
    driver_bindings,
    driver_versions,
    wsl_driver,
    xid_meanings,
    driver_installed,
    nodes_missing,
    cuda_of_driver,
    nvlink_counts,
    links_by_nvml,
    acs_above_gpus,
    processes_far_from_gpus,
    nccl_settings,
    nccl_expectations_of,
)
