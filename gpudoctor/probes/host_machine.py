"""What machine this is: virtualisation, cloud, WSL, firmware's Secure Boot, from DMI and sysfs."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import Evidence
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import exists, is_absent, read_text, said
from gpudoctor.probes.collect import Collected, quote
from gpudoctor.sources import requests
from gpudoctor.sources.answers import Source, Status

DMI = "/sys/class/dmi/id/"
SECURE_BOOT_VARIABLE = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


class Dmi(msgspec.Struct, frozen=True):
    vendor: str = ""
    product: str = ""
    board: str = ""
    bios: str = ""
    asset: str = ""


# The vendors of virtual machines and of clouds as DMI names them: (pattern over all fields, virtualisation, cloud).
_MACHINES: tuple[tuple[str, str | None, str | None], ...] = (
    (r"amazon ec2.*\.metal|\.metal\b.*amazon", "none", "aws"),
    (r"amazon ec2", "amazon", "aws"),
    (r"google compute engine|\bgoogle\b", "google", "gcp"),
    (r"oraclecloud\.com", "kvm", "oci"),
    (r"7783-7084-3265-9085-8269-3286-77", "microsoft", "azure"),
    (r"microsoft corporation.*virtual machine", "microsoft", None),
    (r"alibaba cloud", "kvm", "alibaba"),
    (r"tencent cloud", "kvm", "tencent"),
    (r"digitalocean", "kvm", "digitalocean"),
    (r"hetzner vserver", "kvm", "hetzner"),
    (r"scaleway", "kvm", "scaleway"),
    (r"openstack", "kvm", "openstack"),
    (r"vmware", "vmware", None),
    (r"innotek|virtualbox", "oracle", None),
    (r"\bxen\b", "xen", None),
    (r"parallels", "parallels", None),
    (r"nutanix", "kvm", None),
    (r"qemu|\bkvm\b|bochs|red hat.*kvm|proxmox", "kvm", None),
)
_HARDWARE = Lazy(
    r"dell|hewlett|\bhp\b|hpe|supermicro|super micro|lenovo|ibm|asus|gigabyte|giga-byte|micro-star|\bmsi\b|asrock|intel|"
    r"nvidia|inspur|quanta|wiwynn|fujitsu|cisco|tyan|huawei|xfusion|acer|razer|system76|foxconn|ingrasys|h3c|sugon|"
    r"to be filled|american megatrends|insyde",
    re.IGNORECASE,
)


def machine_of(dmi: Dmi) -> tuple[str | None, str | None]:
    """Virtualisation ("none" on known hardware) and cloud that DMI strings tell."""
    text = " ".join(msgspec.structs.astuple(dmi)).strip().lower()
    if not text:
        return None, None
    for pattern, virtualization, cloud in _MACHINES:
        if re.search(pattern, text):
            return virtualization, cloud
    if _HARDWARE.search(f"{dmi.vendor} {dmi.board}"):
        return "none", None
    return None, None


def read_dmi(source: Source) -> Dmi:
    """The DMI strings of sysfs; empty where there are none."""
    names = ("sys_vendor", "product_name", "board_vendor", "bios_vendor", "chassis_asset_tag")
    return Dmi(*(read_text(source, DMI + name) or "" for name in names))


def collect_machine(source: Source, found: Collected) -> None:
    """Sets virtualization, cloud, is_wsl."""
    release = found.get("kernel_release") or ""
    if "microsoft" in release.lower():
        found.set("is_wsl", True, found.evidence.get("kernel_release"))
        found.set("virtualization", "wsl", found.evidence.get("kernel_release"))
    elif release:
        found.set("is_wsl", False)
    _collect_tegra(source, found)
    dmi = read_dmi(source)
    virtualization, cloud = machine_of(dmi)
    evidence = Evidence(source=DMI + "sys_vendor", text=" ".join(word for word in (dmi.vendor, dmi.product) if word))
    found.set("virtualization", virtualization, evidence)
    found.set("cloud", cloud, evidence)
    if found.get("virtualization") is None:
        _collect_from_hypervisor(source, found)


def _collect_tegra(source: Source, found: Collected) -> None:
    release = found.get("kernel_release") or ""
    if release.endswith("-tegra"):
        found.set("is_tegra", True, found.evidence.get("kernel_release"))
    for path in ("/etc/nv_tegra_release", "/proc/device-tree/model"):
        answer = source.read(path)
        text = answer.text.replace("\0", " ").strip() if answer.status is Status.OK else ""
        if text and (path.startswith("/etc") or re.search(r"jetson|tegra|orin|xavier", text, re.IGNORECASE)):
            found.set("is_tegra", True, Evidence(source=path, text=text[:200]))
    if release:
        found.set("is_tegra", False)


def _collect_from_hypervisor(source: Source, found: Collected) -> None:
    kind = read_text(source, "/sys/hypervisor/type")
    if kind == "xen":
        found.set("virtualization", "xen", Evidence(source="/sys/hypervisor/type", text=kind))
    clock = read_text(source, "/sys/devices/system/clocksource/clocksource0/current_clocksource") or ""
    guests = {"kvm-clock": "kvm", "hyperv_clocksource_tsc_page": "microsoft", "xen": "xen"}
    if clock in guests:
        path = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
        found.set("virtualization", guests[clock], Evidence(source=path, text=clock))
    flags = read_text(source, "/proc/cpuinfo") if found.get("virtualization") is None else None
    if flags and re.search(r"(?m)^flags\s*:.*\bhypervisor\b", flags):
        # systemd's word for a virtual machine of a kind that it does not know
        found.set("virtualization", "vm-other", Evidence(source="/proc/cpuinfo", text="flags: hypervisor"))
    told = source.run(*requests.DETECT_VIRT) if source.kind not in ("live", "recording") else None
    if told is not None and said(told):
        word = told.stdout.strip().split("\n", 1)[0].strip()
        if word == "wsl":
            found.set("is_wsl", True, quote(told, 0))
        if re.fullmatch(r"[a-z][a-z0-9-]*", word):
            found.set("virtualization", word, quote(told, 0))


def parse_mokutil(text: str) -> bool | None:
    """Whether `mokutil --sb-state` says that Secure Boot is on; a machine without EFI variables has none."""
    low = text.lower()
    if "secureboot enabled" in low:
        return True
    if "secureboot disabled" in low or "doesn't support secure boot" in low:
        return False
    if "efi variables are not supported" in low:
        return False
    return None


def parse_lockdown(text: str) -> str | None:
    """The mode in brackets: "none [integrity] confidentiality"."""
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else None


def collect_secure_boot(source: Source, found: Collected) -> None:
    """Sets secure_boot and lockdown."""
    variable = source.read(SECURE_BOOT_VARIABLE)
    if variable.status is Status.OK and len(variable.text) >= 5:
        # Four bytes of attributes, then the value: 1 is enforcing.
        on = variable.text[4] == "\x01"
        words = "Secure Boot is on" if on else "Secure Boot is off"
        found.set("secure_boot", on, Evidence(source=SECURE_BOOT_VARIABLE, text=words))
    elif is_absent(variable) and exists(source, "/sys/firmware/efi") is False and exists(source, "/sys/firmware"):
        found.set("secure_boot", False, Evidence(source="/sys/firmware/efi", text="not booted through UEFI"))
    else:
        answer = source.run(*requests.MOKUTIL_SB_STATE)
        if said(answer):
            found.set("secure_boot", parse_mokutil(answer.text), quote(answer))
    lockdown = source.read("/sys/kernel/security/lockdown")
    if lockdown.status is Status.OK:
        found.set("lockdown", parse_lockdown(lockdown.text), quote(lockdown, 0))
