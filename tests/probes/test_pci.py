"""The bus: lspci in its forms, sysfs, kernel logs; and what the PCI id tells."""

from __future__ import annotations

import pytest

from gpudoctor.facts import Evidence, Facts, Gpu, Host, Pci, PciDevice
from gpudoctor.probes import derive, pci
from gpudoctor.probes.pci_from_lspci import filter_shows_nvidia
from gpudoctor.probes.pci_lspci import parse_lspci
from gpudoctor.probes.pci_sysfs import parse_resource, parse_speed, parse_width, upstream_bdfs
from gpudoctor.sources import open_text
from tests.probes.machine import machine

VVV = """\
00:01.0 PCI bridge [0604]: Intel Corporation Root Port [8086:6f02] (rev 01) (prog-if 00 [Normal decode])
\tBus: primary=00, secondary=01, subordinate=01, sec-latency=0
\tLnkCap:\tPort #0, Speed 8GT/s, Width x8, ASPM L1, Exit Latency L1 <4us
\tLnkSta:\tSpeed 8GT/s, Width x8
\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
\tKernel driver in use: pcieport

01:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 PCIe 40GB] [10de:20f1] (rev a1)
\tSubsystem: NVIDIA Corporation Device [10de:145f]
\tPhysical Slot: 4
\tNUMA node: 0
\tIOMMU group: 14
\tRegion 0: Memory at ec000000 (32-bit, non-prefetchable) [size=16M]
\tRegion 1: Memory at 7000000000 (64-bit, prefetchable) [size=64G]
\tRegion 3: Memory at <unassigned> (64-bit, prefetchable)
\t\tStatus: D0 NoSoftRst+ PME-Enable- DSel=0 DScale=0 PME-
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x8 (downgraded)
\tKernel driver in use: nvidia
\tKernel modules: nvidiafb, nouveau, nvidia_drm, nvidia

01:00.1 Audio device [0403]: NVIDIA Corporation Device [10de:1aef] (rev a1)
"""


def only(facts):
    assert facts is not None
    assert len(facts.nvidia_devices) == 1
    return facts.nvidia_devices[0]


def test_the_detailed_form_with_the_way_up_to_the_root_port():
    facts = pci.probe(open_text(f"$ sudo lspci -vvv -nn\n{VVV}"))
    device = only(facts)
    assert (device.bdf, device.device_id, device.subsystem_id, device.class_code) == (
        "0000:01:00.0",
        "10de:20f1",
        "10de:145f",
        "0302",
    )
    assert (device.link_speed_gts, device.link_width, device.link_speed_max_gts, device.link_width_max) == (
        8.0,
        8,
        16.0,
        16,
    )
    assert (device.path_link_speed_max_gts, device.path_link_width_max) == (8.0, 8)
    assert (device.path_bottleneck_bdf, device.upstream_bdfs) == ("0000:00:01.0", ["0000:00:01.0"])
    assert (device.slot, device.numa_node, device.iommu_group, device.power_state) == ("4", 0, 14, "D0")
    assert (device.bar_unassigned, device.bar1_size_mib, device.driver_in_use) == (True, 65536, "nvidia")
    assert device.kernel_modules == ["nvidiafb", "nouveau", "nvidia_drm", "nvidia"]
    assert facts.acs_enabled_bridges == ["0000:00:01.0"]
    assert "downgraded" in device.evidence["link_width"].text
    assert device.evidence["bar_unassigned"].line == 16


@pytest.mark.parametrize(
    ("line", "bdf", "device_id", "code"),
    [
        (
            "01:00.0 VGA compatible controller: NVIDIA Corporation GP108 [GeForce GT 1030] (rev a1)",
            "0000:01:00.0",
            None,
            "0300",
        ),
        (
            "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:2b85] (rev a1)",
            "0000:01:00.0",
            "10de:2b85",
            "0300",
        ),
        ("19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)", "0000:19:00.0", "10de:2330", "0302"),
        ("0001:00:00.0 3D controller: NVIDIA Corporation TU104GL [Tesla T4] (rev a1)", "0001:00:00.0", None, "0302"),
        ("01:00.0 0300: 10de:2206 (rev a1)", "0000:01:00.0", "10de:2206", "0300"),
        (
            "    3B:00.0 3D controller [0302]: NVIDIA Corporation GA102GL [A10] [10DE:2236] (rev a1)",
            "0000:3b:00.0",
            "10de:2236",
            "0302",
        ),
        (
            "04:00.0 VGA compatible controller: nVidia Corporation G98 [Quadro NVS 295] (rev a1)",
            "0000:04:00.0",
            None,
            "0300",
        ),
        (
            "01:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1) (prog-if 00 [VGA controller])",
            "0000:01:00.0",
            None,
            "0300",
        ),
    ],
)
def test_one_line_in_each_form(line, bdf, device_id, code):
    (function,) = parse_lspci(line)
    assert (function.bdf, function.device_id, function.class_code) == (bdf, device_id, code)
    assert function.is_nvidia
    device = only(pci.probe(open_text(f"$ lspci | grep -i nvidia\n{line}\n")))
    assert device.bdf == bdf


@pytest.mark.parametrize(
    "text", ["", "\x00\xff\n", "01:00.0\n", "zz:zz.z VGA: x\n", ":\n[]:[]\n", "pcilib: Cannot open /proc/bus/pci\n"]
)
def test_damaged_output_has_no_functions(text):
    assert parse_lspci(text) == []


def test_companions_and_bridges_of_nvidia_are_no_gpus():
    text = "$ lspci -nn\n" + "\n".join(
        [
            "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation TU102 [GeForce RTX 2080 Ti] [10de:1e07] (rev a1)",
            "01:00.1 Audio device [0403]: NVIDIA Corporation TU102 High Definition Audio Controller [10de:10f7] (rev a1)",
            "01:00.2 USB controller [0c03]: NVIDIA Corporation TU102 USB 3.1 Host Controller [10de:1ad6] (rev a1)",
            "83:00.0 Bridge [0680]: NVIDIA Corporation GH100 [H100 NVSwitch] [10de:22a3] (rev a1)",
            "1a:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]",
        ]
    )
    facts = pci.probe(open_text(text))
    assert only(facts).device_id == "10de:1e07"
    assert facts.nvswitches == ["0000:83:00.0"]
    assert facts.mellanox_devices == ["0000:1a:00.0"]


def test_a_device_that_does_not_answer():
    text = "$ lspci -v\n04:00.0 3D controller: NVIDIA Corporation GM108M [GeForce 840M] (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n\tKernel driver in use: nvidia\n"
    device = only(pci.probe(open_text(text)))
    assert device.revision_ff is True
    assert device.evidence["revision_ff"].line == 3


def test_no_driver_bound_is_known_only_where_lspci_shows_drivers():
    shown = "$ lspci -nnk\n00:02.0 Ethernet controller [0200]: Intel Corporation I210 [8086:1533]\n\tKernel driver in use: igb\n01:00.0 3D controller [0302]: NVIDIA Corporation GA100 [10de:20b0] (rev a1)\n\tKernel modules: nouveau\n"
    assert only(pci.probe(open_text(shown))).driver_in_use == ""
    plain = "$ lspci -nn\n01:00.0 3D controller [0302]: NVIDIA Corporation GA100 [10de:20b0] (rev a1)\n"
    assert only(pci.probe(open_text(plain))).driver_in_use is None


OTHERS = "\n".join(f"00:1f.{n} SATA controller: Intel Corporation Sunrise Point-H" for n in range(6))


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("$ lspci | grep -i nvidia\n$ uname -r\n6.8.0-49-generic\n", []),
        ("$ lspci -nn | grep -i 10de\n$ uname -r\n6.8.0-49-generic\n", []),
        (f"$ lspci\n{OTHERS}\n", []),
        # A 3D controller would not have been shown.
        ("$ lspci | grep -i vga\n00:02.0 VGA compatible controller: Intel Corporation HD Graphics 530\n", None),
        # Too short to be a whole bus.
        ("$ lspci\n00:02.0 VGA compatible controller: Intel Corporation HD Graphics 530\n", None),
        ("$ lspci\nlspci: command not found\n", None),
        ("nothing of the bus", None),
    ],
)
def test_absence_is_claimed_only_where_it_was_seen(text, devices):
    facts = pci.probe(open_text(text))
    assert (facts.nvidia_devices if facts else None) == devices


def test_filters():
    assert filter_shows_nvidia("nvidia")
    assert filter_shows_nvidia("VGA|3D")
    assert not filter_shows_nvidia("vga")
    assert not filter_shows_nvidia("[broken")


def test_the_address_in_the_command_names_the_device():
    text = "$ sudo lspci -vv -s 05:00.0 | grep LnkSta:\n\t\tLnkSta: Speed 16GT/s, Width x4 (downgraded)\n"
    device = only(pci.probe(open_text(text)))
    assert (device.bdf, device.link_speed_gts, device.link_width) == ("0000:05:00.0", 16.0, 4)


def test_a_kernel_log_names_devices_and_missing_bars():
    text = "$ dmesg\nNVRM: The NVIDIA GPU 0000:af:00.0 (PCI ID: 10de:1db5)\nNVRM: installed in this system is not supported by open\nNVRM: BAR1 is 0M @ 0x0 (PCI:0000:b0:00.0)\nnvidia: probe of 0000:b0:00.0 failed with error -1\n"
    facts = pci.probe(open_text(text))
    assert facts is not None
    assert [(d.bdf, d.device_id, d.bar_unassigned) for d in facts.nvidia_devices] == [
        ("0000:af:00.0", "10de:1db5", None),
        ("0000:b0:00.0", None, True),
    ]
    assert facts.nvidia_devices[1].evidence["bar_unassigned"].line == 4


GPU = "/sys/bus/pci/devices/0000:3b:00.0"
BRIDGE = "/sys/bus/pci/devices/0000:3a:00.0"


def sysfs_files(**changes):
    files = {
        f"{GPU}/vendor": "0x10de\n",
        f"{GPU}/device": "0x20b2\n",
        f"{GPU}/class": "0x030200\n",
        f"{GPU}/revision": "0xa1\n",
        f"{GPU}/current_link_speed": "2.5 GT/s PCIe\n",
        f"{GPU}/current_link_width": "8\n",
        f"{GPU}/max_link_speed": "16.0 GT/s PCIe\n",
        f"{GPU}/max_link_width": "16\n",
        f"{GPU}/numa_node": "1\n",
        f"{GPU}/enable": "1\n",
        f"{GPU}/power_state": "D0\n",
        f"{GPU}/resource": "0x00000000ec000000 0x00000000ecffffff 0x0000000000040200\n0x0000007000000000 0x0000007fffffffff 0x000000000014220c\n0x0 0x0 0x0\n0x0000008000000000 0x0000008001ffffff 0x000000000014220c\n",
        f"{GPU}/config": "\ufffd\x10\x00" + "x" * 60,
        f"{BRIDGE}/vendor": "0x8086\n",
        f"{BRIDGE}/class": "0x060400\n",
        f"{BRIDGE}/max_link_speed": "16.0 GT/s PCIe\n",
        f"{BRIDGE}/max_link_width": "8\n",
        "/sys/kernel/iommu_groups/12/type": "DMA-FQ\n",
        "/sys/bus/pci/slots/7/address": "0000:3b:00\n",
    }
    return {**files, **{f"{GPU}/{name}": text for name, text in changes.items()}}


SYSFS_LINKS = {
    GPU: "../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0",
    f"{GPU}/driver": "../../../../bus/pci/drivers/nvidia",
    f"{GPU}/iommu_group": "../../../../kernel/iommu_groups/12",
}


@pytest.mark.parametrize(
    ("lines", "unassigned"),
    [
        ("pci 0000:05:00.0: BAR 1: no space for [mem size 0x800000000 64bit pref]\n", True),
        ("pci 0000:05:00.0: BAR 1 [mem size 0x800000000 64bit pref]: can't assign; no space\n", True),
        (
            "pci 0000:05:00.0: BAR 1: failed to assign [mem size 0x800000000 64bit pref]\n"
            "pci 0000:05:00.0: BAR 1: assigned [mem 0x3000000000-0x37ffffffff 64bit pref]\n",
            None,
        ),
        ("pci 0000:05:00.0: BAR 5: no space for [io  size 0x0080]\n", None),
        ("pci 0000:06:00.0: BAR 1: no space for [mem size 0x800000000 64bit pref]\n", None),
    ],
)
def test_a_kernel_log_tells_of_regions_without_space(lines, unassigned):
    log = "pci 0000:05:00.0: [10de:2684] type 00 class 0x030000\n" + lines
    assert [device.bar_unassigned for device in pci.probe(open_text(log)).nvidia_devices] == [unassigned]


def test_sysfs_tells_all_but_the_name():
    lspci = "0000:3b:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)\n\tKernel modules: nouveau, nvidia\n"
    facts = pci.probe(machine(sysfs_files(), links=SYSFS_LINKS, commands={("lspci", "-nnDk"): lspci}))
    device = only(facts)
    assert (device.device_id, device.class_code, device.driver_in_use) == ("10de:20b2", "0302", "nvidia")
    assert device.name == "NVIDIA Corporation GA100 [A100 SXM4 80GB]"
    assert (device.link_speed_gts, device.link_width, device.link_speed_max_gts, device.link_width_max) == (
        2.5,
        8,
        16.0,
        16,
    )
    assert (device.path_link_width_max, device.path_bottleneck_bdf) == (8, "0000:3a:00.0")
    assert (device.numa_node, device.iommu_group, device.slot, device.enabled) == (1, 12, "7", True)
    assert (device.bar_unassigned, device.bar1_size_mib, device.revision_ff) == (False, 65536, False)
    assert (facts.iommu_enabled, facts.iommu_mode) == (True, "translated")


def test_sysfs_counts_the_errors_of_the_link():
    counted = "RxErr 12\nBadTLP 3\nTimeout 0\nTOTAL_ERR_COR 15\n"
    files = sysfs_files(aer_dev_correctable=counted, aer_dev_fatal="DLP 0\nTOTAL_ERR_FATAL 0\n")
    device = only(pci.probe(machine(files, links=SYSFS_LINKS)))
    assert (device.aer_correctable, device.aer_nonfatal, device.aer_fatal) == (15, None, 0)
    assert device.evidence["aer_correctable"].text == "RxErr 12, BadTLP 3"


def test_sysfs_of_a_device_that_fell_off_and_of_one_without_driver():
    facts = pci.probe(
        machine(sysfs_files(config="\ufffd" * 64, current_link_speed="Unknown\n", current_link_width="63\n"))
    )
    device = only(facts)
    assert (device.revision_ff, device.link_speed_gts, device.driver_in_use) == (True, None, "")


def test_a_bus_without_nvidia_is_known_to_have_none():
    facts = pci.probe(machine({"/sys/bus/pci/devices/0000:00:02.0/vendor": "0x8086\n"}))
    assert facts is not None
    assert facts.nvidia_devices == []
    assert "1 functions, 0 NVIDIA" in facts.evidence["nvidia_devices"].text


def test_an_unreadable_bus_claims_nothing():
    assert pci.probe(machine(denied=("/sys/bus/pci/devices/0000:00:02.0/vendor",))) is None


@pytest.mark.parametrize(
    ("text", "unassigned", "mib"),
    [
        ("0x0000000000000000 0x00000000ffffffff 0x000000000014220c\n", True, 4096),
        ("0x00000000ec000000 0x00000000ecffffff 0x0000000020040200\n", True, 16),
        ("0x0000000000000000 0x0000000000000000 0x0000000000000000\n", None, None),
        ("0x000000000000e000 0x000000000000e07f 0x0000000000040101\n", None, None),
        ("garbage\n\n1 2\n", None, None),
        ("", None, None),
    ],
)
def test_addresses_of_bars(text, unassigned, mib):
    assert parse_resource(text) == (unassigned, mib)


def test_sriov_bars_without_address_do_not_count():
    good = "0x00000000ec000000 0x00000000ecffffff 0x0000000000040200\n"
    unset = "0x0000000000000000 0x00000000003fffff 0x000000000014220c\n"
    assert parse_resource(good + "0x0 0x0 0x0\n" * 6 + unset) == (False, 16)


def test_small_values():
    assert (parse_speed("32.0 GT/s PCIe"), parse_speed("8 GT/s"), parse_speed("Unknown"), parse_speed(None)) == (
        32.0,
        8.0,
        None,
        None,
    )
    assert (parse_width("16"), parse_width("0"), parse_width("255"), parse_width("x")) == (16, None, None, None)
    assert upstream_bdfs("../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0") == [
        "0000:01:00.0",
        "0000:00:01.0",
    ]
    assert upstream_bdfs(None) == []


# --- what follows from the id -----------------------------------------------------------------------------------------


def derived(*devices, gpus=None, host=None):
    facts = Facts(pci=Pci(nvidia_devices=list(devices)) if devices else None, gpus=gpus, host=host)
    for step in derive.DERIVATIONS:
        facts = step(facts)
    return facts


@pytest.mark.parametrize(
    ("device_id", "name", "architecture", "support", "last"),
    [
        ("10de:20b2", None, "ampere", "supported", None),
        ("10de:2b85", None, "blackwell", "required", None),
        ("10de:2342", None, "hopper", "required", None),
        ("10de:1db5", None, "volta", "unsupported", 580),
        ("10de:1187", None, "kepler", "unsupported", 470),
        ("10de:1e07", "NVIDIA Corporation GV102", "turing", "supported", None),
        ("10de:ffff", "NVIDIA Corporation GB202 [GeForce RTX 5090]", "blackwell", "required", None),
        (None, "NVIDIA Corporation GM108M [GeForce 840M]", "maxwell", "unsupported", 580),
        (None, "NVIDIA Corporation GT218 [GeForce 210]", "tesla", "unsupported", 340),
        (None, "NVIDIA Corporation GF108 [GeForce GT 430]", "fermi", "unsupported", 390),
        ("10de:ffff", "NVIDIA Corporation Device ffff", None, None, None),
        (None, None, None, None, None),
    ],
)
def test_architecture_and_support_by_id_or_chip(device_id, name, architecture, support, last):
    device = derived(PciDevice(bdf="0000:01:00.0", device_id=device_id, name=name)).pci.nvidia_devices[0]
    assert (device.architecture, device.open_module_support, device.last_driver_branch) == (
        architecture,
        support,
        last,
    )


def test_products_that_share_an_id_are_both_named_unless_the_subsystem_tells():
    device = derived(PciDevice(bdf="0000:01:00.0", device_id="10de:25b6")).pci.nvidia_devices[0]
    assert device.product == "NVIDIA A16 or NVIDIA A2"
    device = derived(
        PciDevice(bdf="0000:01:00.0", device_id="10de:25b6", subsystem_id="10de:157e")
    ).pci.nvidia_devices[0]
    assert device.product == "NVIDIA A2"


def test_gpus_that_answer_are_on_the_bus():
    facts = derived(gpus=[Gpu(index=0, bdf="00000000:3B:00.0", device_id="10de:20b2", name="A100")])
    assert [(d.bdf, d.product) for d in facts.pci.nvidia_devices] == [("0000:3b:00.0", "NVIDIA A100-SXM4-80GB")]
    assert facts.driver.loaded is True
    assert facts.gpus[0].architecture == "ampere"


def test_wsl_has_its_gpus_elsewhere():
    facts = Facts(pci=Pci(nvidia_devices=[]), host=Host(is_wsl=True))
    assert derive.pci_from_gpus(facts).pci.nvidia_devices is None


def test_a_tegra_has_its_gpu_in_the_chip():
    facts = Facts(pci=Pci(nvidia_devices=[]), host=Host(is_tegra=True))
    assert derive.pci_from_gpus(facts).pci.nvidia_devices is None


def test_a_bus_seen_whole_is_not_completed_by_what_the_driver_remembers():
    seen = {"nvidia_devices": Evidence(source="lspci")}
    one = PciDevice(bdf="0000:01:00.0")
    gpus = [Gpu(index=0, bdf="0000:01:00.0"), Gpu(index=1, bdf="0000:02:00.0")]
    facts = derive.pci_from_gpus(Facts(pci=Pci(nvidia_devices=[one], evidence=seen), gpus=gpus))
    assert [device.bdf for device in facts.pci.nvidia_devices] == ["0000:01:00.0"]
    # A sandbox may hide the bus while its GPU answers.
    facts = derive.pci_from_gpus(Facts(pci=Pci(nvidia_devices=[], evidence=seen), gpus=gpus))
    assert len(facts.pci.nvidia_devices) == 2
    # A lost GPU is not put back on the bus.
    facts = derive.pci_from_gpus(Facts(gpus=[Gpu(index=0, bdf="0000:01:00.0", lost=True)]))
    assert facts.pci is None or facts.pci.nvidia_devices is None
