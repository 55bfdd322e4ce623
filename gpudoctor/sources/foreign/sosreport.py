"""The GPU parts of a sosreport: a directory or archive whose places say which command or file each member is."""

from __future__ import annotations

from gpudoctor.lazy import Lazy
from gpudoctor.sources import requests as known
from gpudoctor.sources.foreign.answer import Request

# Members of sos_commands/, whose names are the command lines; plugin directories changed over the years.
_COMMANDS: tuple[tuple[Lazy, tuple[str, ...]], ...] = tuple(
    (Lazy(rf"sos_commands/\w+/{name}(?:\.txt)?"), request)
    for name, request in (
        (r"uname_-a", known.UNAME_A),
        (r"lspci_-nnvv+", known.LSPCI_VVV),
        (r"lspci(?:_-nn)?", known.LSPCI),
        (r"dmesg(?:_-T|_--time-format.*)?|dmesg_-H", known.DMESG),
        (r"journalctl_--no-pager_(?:--catalog_)?--boot(?:_-k)?", known.SYSLOG),
        (r"lsmod", known.LSMOD),
        (r"dkms_status", known.DKMS_STATUS),
        (r"mokutil_--sb-state", known.MOKUTIL_SB_STATE),
        (r"modinfo_nvidia", known.MODINFO_NVIDIA),
        (r"nvidia-smi(?:_--list-gpus|_-L)", known.NVIDIA_SMI_L),
        (r"nvidia-smi_(?:-q|--query)_(?:-x|--xml-format)", known.NVIDIA_SMI_XML),
        (r"nvidia-smi_(?:-q|--query)", known.NVIDIA_SMI_Q),
        (r"nvidia-smi_topo_-m", known.NVIDIA_SMI_TOPO),
        (r"nvidia-smi_nvlink_-s", known.NVIDIA_SMI_NVLINK),
        (r"nvidia-smi", known.NVIDIA_SMI),
        (r"dpkg_-l", known.DPKG_LIST),
        (r"docker_info", known.DOCKER_INFO),
        (r"docker_version", known.DOCKER_VERSION),
        (r"podman_info", known.PODMAN_INFO),
        (r"ibstat", known.IBSTAT),
        (r"nvidia-ctk_cdi_list", known.NVIDIA_CTK_CDI_LIST),
        (r"nvidia-ctk_--version", known.NVIDIA_CTK_VERSION),
        (r"free(?:_-m)?", known.FREE),
        (r"df_-[ahl]+.*", known.DF),
    )
)
_RPMS = Lazy(r"(?:sos_commands/rpm/(?:sh_-c_)?rpm_.*-qa.*|installed-rpms)")
_FILES = Lazy(
    r"(?:etc/(?:os-release|redhat-release|debian_version|hostname|docker/daemon\.json|containerd/config\.toml|nvidia-container-runtime/config\.toml|cdi/[^/]+|modprobe\.d/[^/]+|default/grub"
    r"|modules-load\.d/[^/]+)|proc/(?:version|cmdline|modules|meminfo|cpuinfo|driver/nvidia/.+)|sys/module/nvidia[^/]*/.+|sys/bus/pci/devices/.+|var/log/fabricmanager\.log|var/run/cdi/[^/]+)"
)
_TOP = Lazy(r"^(?:sosreport-[^/]+/)?")


def request_of_member(name: str) -> Request | None:
    """What the member of a sosreport at this place answers; None for any other file."""
    place = _TOP.sub("", name.replace("\\", "/"), count=1)
    for pattern, request in _COMMANDS:
        if pattern.fullmatch(place):
            return request
    if _RPMS.fullmatch(place):
        return known.RPM_LIST
    if _FILES.fullmatch(place):
        return f"/{place}"
    return None
