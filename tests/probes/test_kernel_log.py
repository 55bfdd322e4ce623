"""Kernel logs in every layout: Xids, SXids, families of messages, boots, bursts, repetitions, damage and size."""

from __future__ import annotations

import time

import pytest

from gpudoctor.facts import Kernel, Xid
from gpudoctor.probes import kernel_log
from gpudoctor.probes.kernel_log import parse_kernel_log
from gpudoctor.probes.kernel_messages import FAMILIES, family_of
from gpudoctor.probes.log_lines import read_line
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, Source, Status
from gpudoctor.sources.requests import DMESG, JOURNAL_KERNEL, SYSLOG
from gpudoctor.sources.stored import StoredSource, filled

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4121, name=python3, GPU has fallen off the bus."
NOW = 1_700_000_000.0  # 2023-11-14


def only(kernel: Kernel) -> Xid:
    assert kernel.xids is not None
    assert len(kernel.xids) == 1
    return kernel.xids[0]


def recorded(*answers: CommandAnswer | FileAnswer, kind: str = "foreign") -> Source:
    return StoredSource(kind, "test", filled(answers), now=NOW)


def log(request: tuple[str, ...], text: str, **more: object) -> CommandAnswer:
    return CommandAnswer(argv=request, status=Status.OK, stdout=text, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prefix", "when", "seconds"),
    [
        ("", None, None),
        ("[ 3947.590120] ", None, 3947.59012),
        ("[ 3947.590120][ T1234] ", None, 3947.59012),
        ("[    5.212850] [T12] ", None, 5.21285),
        ("[Mon Jan 20 10:18:26 2025] ", "2025-01-20T10:18:26", None),
        ("<4>[  201.650687] ", None, 201.650687),
        ("kern  :warn  : [  201.650687] ", None, 201.650687),
        ("kern  :warn  : 2025-01-21T02:21:33,498559+00:00 ", "2025-01-21T02:21:33Z", None),
        ("2024-11-15T05:39:15,491363+01:00 ", "2024-11-15T04:39:15Z", None),
        ("2025-01-17T17:10:43+0000 node7 kernel: ", "2025-01-17T17:10:43Z", None),
        ("2026-08-16T09:49:06.440253-05:00 node7 kernel: ", "2026-08-16T14:49:06Z", None),
        ("2026-08-16T09:49:06.440253-05:00 node7 kernel: [   17.123456] ", "2026-08-16T14:49:06Z", 17.123456),
        ("Sep  8 07:55:37 node7 kernel: [350941.516160] ", "Sep 8 07:55:37", 350941.51616),
        ("Sep 18 07:55:37 node7 kernel: ", "Sep 18 07:55:37", None),
        ("Sep 18 07:55:37.123456 node7 kernel: ", "Sep 18 07:55:37.123456", None),
        ("Tue 2024-01-30 12:00:00 UTC node7 kernel: ", "2024-01-30T12:00:00Z", None),
        ("Sep 18 2025 07:55:37 node7 kernel: ", "2025-09-18T07:55:37", None),
        ("Feb 30 2025 25:61:61 node7 kernel: ", "Feb 30 2025 25:61:61", None),
        ("[Mon Foo 20 10:18:26 2025] ", None, None),
        ("kernel: ", None, None),
        ("node7 kernel: ", None, None),
    ],
)
def test_every_prefix(prefix: str, when: str | None, seconds: float | None) -> None:
    xid = only(parse_kernel_log(prefix + XID + "\n"))
    assert (xid.code, xid.bdf, xid.pid, xid.process) == (79, "0000:3b:00", 4121, "python3")
    assert xid.text == "GPU has fallen off the bus."
    assert (xid.time, xid.seconds) == (when, seconds)
    assert xid.evidence[""].line == 1
    assert xid.evidence[""].text == (prefix + XID).strip()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "NVRM: Xid (0000:03:00): 13, 0003 00000000 00009297 00001b0c 1000f010 00000040",
            (13, "0000:03:00", None, None, None),
        ),
        (
            "NVRM: Xid (PCI:0000:38:00): 43, pid='<unknown>', name=<unknown>, Ch 00000008",
            (43, "0000:38:00", None, None, None),
        ),
        ("NVRM: Xid (PCI:0000:01:00): 45, pid=24349, Ch 00000010", (45, "0000:01:00", 24349, None, None)),
        ("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", (79, "0000:01:00", None, None, None)),
        (
            "NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_DOWN Fatal XC0 i0 Link 14",
            (149, "0008:01:00", None, None, None),
        ),
        (
            "NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 31, pid=77, name=a b, Ch 8",
            (31, "0000:3b:00", 77, "a b", "GPU-I:05 GPU-CI:00"),
        ),
        ("NVRM: Xid (PCI:00000000:3B:00.0): 62, 0cb5(2d50)", (62, "0000:3b:00", None, None, None)),
        (
            "NVRM: Xid (PCI:0000:b3:00): 94, pid=9, name=python3.10, Ch 00000008",
            (94, "0000:b3:00", 9, "python3.10", None),
        ),
        ("NVRM: GPU0 Xid (PCI:0000:b3:00): 119", (119, "0000:b3:00", None, None, None)),
        ("Xid (PCI:0000:b3:00): 48, DBE", (48, "0000:b3:00", None, None, None)),
    ],
)
def test_every_xid_layout(line: str, expected: tuple[object, ...]) -> None:
    xid = only(parse_kernel_log(line))
    assert (xid.code, xid.bdf, xid.pid, xid.process, xid.mig) == expected


def test_recovery_action() -> None:
    line = "[9.1] NVRM: Xid (PCI:0000:1a:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    assert only(parse_kernel_log(line)).recovery == "Node Reboot Required"


def test_the_catalogue_names_them() -> None:
    xid = only(parse_kernel_log(XID))
    assert xid.name
    assert xid.blame == "bus"


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:3b:00): ",
        "NVRM: Xid (garbage): 79",
        "my app says Xid 79 happened",
        "NVRM: Xid (PCI:0000:3b:00: 79, GPU",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Data {0x00}",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Severity 1 Engine instance 30 Sub-engine instance 00",
    ],
)
def test_what_is_no_report(line: str) -> None:
    kernel = parse_kernel_log(line)
    assert kernel.xids == []
    assert kernel.sxids == []


def test_sxids() -> None:
    text = """[11.1] nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 20034, Fatal, Link 30 LTSSM Fault Up (First)
[11.2] nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 20034, Severity 1 Engine instance 30 Sub-engine instance 00
[11.3] nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 20034, Data {0x00000000, 0x00000000}
[12.0] nvidia-nvswitch0: SXid (PCI:0000:c5:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)
[13.0] nvidia-nvswitch0: SXid (PCI:0000:c5:00.0): 10004, NVSWITCH Temperature 96C | TSENSE WARN Threshold 95C
[14.0] SXid (PCI:0000:c6:00.0): 22013, Fatal, Link 02 Minion Link DLREQ interrupt
"""
    kernel = parse_kernel_log(text)
    found = [(s.code, s.switch, s.bdf, s.severity, s.link) for s in kernel.sxids or []]
    assert found == [
        (20034, 2, "0000:85:00.0", "fatal", 30),
        (12028, 0, "0000:c5:00.0", "non-fatal", 32),
        (10004, 0, "0000:c5:00.0", None, None),
        (22013, None, "0000:c6:00.0", "fatal", 2),
    ]
    assert kernel.xids == []


# --- other messages --------------------------------------------------------------------------------------------------

LINES = {
    "rm_init_adapter": "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x24:0x65:1437)",
    "rm_init_adapter2": "NVRM: GPU 0000:3b:00.0: rm_init_adapter failed, device minor number 0",
    "fallen_off_bus": "NVRM: GPU at 00000000:04:00.0 has fallen off the bus.",
    "gsp_no_firmware": "NVRM: GPU0 RmFetchGspRmImages: No firmware image found",
    "vbios_fail": "NVRM: GPU 0000:01:00.0: Failed to copy vbios to system memory.",
    "msix_fail": "NVRM: GPU 0000:01:00.0: Failed to enable MSI; falling back to PCIe virtual-wire interrupts.",
    "needs_open_modules": "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
    "uvm_rm_fatal": "NVRM: nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, requiring os reboot to recover.",
    "module_unsigned": "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
    "key_rejected": "Loading of unsigned module is rejected",
    "nouveau": "nouveau 0000:01:00.0: NVIDIA GA102 (172000a1)",
    "aer": "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
    "aer_received": "pcieport 0000:00:1d.0: AER: Correctable error message received from 0000:05:00.0",
    "dpc": "pcieport 0000:3a:00.0: DPC: containment event, status:0x1f01 source:0x0000",
    "pcie_bandwidth_limited": "pci 0000:3b:00.0: 63.012 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x4 link at 0000:3a:00.0 (capable of 252.048 Gb/s)",
    "bar_no_space": "pci 0000:0a:00.0: BAR 1: no space for [mem size 0x1000000000 64bit pref]",
    "iommu_fault": "nvidia 0000:3b:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x002a address=0x7f1a2000 flags=0x0020]",
    "mce": "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400",
    "edac_ue": "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
    "oom_kill": "Out of memory: Killed process 1432 (python) total-vm:44121988kB, anon-rss:15602364kB",
    "io_error": "blk_update_request: I/O error, dev sda, sector 123 op 0x0:(READ)",
    "kernel_panic": "Kernel panic - not syncing: Fatal exception",
    "hung_task": "INFO: task python3:4121 blocked for more than 122 seconds.",
    "soft_lockup": "watchdog: BUG: soft lockup - CPU#12 stuck for 26s! [nvidia-smi:4121]",
    "firmware_direct_load": "nvidia 0000:3b:00.0: Direct firmware load for nvidia/580.95.05/gsp_ga10x.bin failed with error -2",
    "peermem_err": "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
}


@pytest.mark.parametrize(("name", "line"), LINES.items(), ids=LINES.keys())
def test_families(name: str, line: str) -> None:
    family = family_of(line)
    assert family is not None
    assert family.id == name
    kernel = parse_kernel_log(f"Sep 18 07:55:37 node7 kernel: [ 17.123456] {line}\n")
    entries = getattr(kernel, family.group)
    assert len(entries) == 1
    assert entries[0].evidence[""].line == 1
    assert [name for name in ("xids", "sxids") if getattr(kernel, name)] == []


def test_a_line_with_the_time_of_the_day_only() -> None:
    kernel = parse_kernel_log("19:14:43  NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n")
    assert only(kernel).code == 79


def test_ids_are_unique() -> None:
    assert len({family.id for family in FAMILIES}) == len(FAMILIES)


def test_devices_processes_and_severities() -> None:
    kernel = parse_kernel_log("\n".join(LINES.values()))
    aer = {(event.bdf, event.severity) for event in kernel.aer or []}
    assert aer == {("0000:3b:00.0", "corrected"), ("0000:05:00.0", "corrected")}
    assert [(kill.process, kill.pid, kill.severity) for kill in kernel.oom_kills or []] == [
        ("python", 1432, "system")
    ]
    hung = next(event for event in kernel.other or [] if event.kind == "hung_task")
    assert (hung.process, hung.pid) == ("python3", 4121)
    failed = next(message for message in kernel.nvrm or [] if message.id == "rm_init_adapter")
    assert failed.bdf == "0000:3b:00.0"


def test_one_pcie_error_is_counted_once() -> None:
    text = """[10.000001] pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3b:00.0
[10.000002] nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)
[10.000003] nvidia 0000:3b:00.0:   device [10de:2330] error status/mask=00000001/0000a000
[10.000004] nvidia 0000:3b:00.0:    [ 0] RxErr                  (First)
[11.000002] nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Data Link Layer, (Receiver ID)
[12.000002] nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer
"""
    kernel = parse_kernel_log(text)
    assert [(event.severity, event.count) for event in kernel.aer or []] == [
        ("corrected", 1),
        ("fatal", 1),
        ("non-fatal", 1),
    ]
    assert "PCIe Bus Error" in (kernel.aer or [])[0].text


def test_a_message_over_several_lines() -> None:
    text = """[1.1] NVRM: API mismatch: the client has the version 525.85.12, but
[1.1] NVRM: this kernel module has the version 520.56.06.  Please
[1.1] NVRM: make sure that this kernel module and all NVIDIA driver
[1.1] NVRM: components have the same version.
[2.1] NVRM: The NVIDIA GPU 0000:af:00.0 (PCI ID: 10de:1db5)
[2.1] NVRM: installed in this system is not supported by open
[2.1] NVRM: nvidia.ko because it does not include the required GPU
[2.1] NVRM: System Processor (GSP).
[2.2] NVRM: GPU 0000:af:00.0: RmInitAdapter failed! (0x22:0x56:884)
"""
    kernel = parse_kernel_log(text)
    assert kernel.nvrm is not None
    mismatch, unsupported, failed = kernel.nvrm
    assert mismatch.id == "api_mismatch"
    assert "525.85.12, but this kernel module has the version 520.56.06." in mismatch.text
    assert (unsupported.id, unsupported.bdf) == ("open_not_supported", "0000:af:00.0")
    assert failed.id == "rm_init_adapter"


# --- bursts, boots, repetition -------------------------------------------------------------------------------------


def test_bursts() -> None:
    text = "".join(
        f"[{100 + n}.{n:06d}] NVRM: Xid (PCI:0000:38:00): 13, pid=7, name=train, Graphics SM Warp Exception on (GPC {n % 8}, TPC {n % 3}, SM 0): Out Of Range Address\n"
        for n in range(500)
    )
    text += "[900.000000] NVRM: Xid (PCI:0000:38:00): 43, pid=7, name=train, Ch 00000008\n"
    kernel = parse_kernel_log(text)
    assert [(xid.code, xid.count) for xid in kernel.xids or []] == [(13, 500), (43, 1)]
    assert (kernel.xids or [])[0].seconds == 100.0


def test_gpus_and_processes_are_told_apart() -> None:
    text = """[1.1] NVRM: Xid (PCI:0000:38:00): 31, pid=7, name=train, Ch 1
[1.2] NVRM: Xid (PCI:0000:39:00): 31, pid=7, name=train, Ch 1
[1.3] NVRM: Xid (PCI:0000:38:00): 31, pid=9, name=serve, Ch 1
"""
    assert [(xid.bdf, xid.process) for xid in parse_kernel_log(text).xids or []] == [
        ("0000:38:00", "train"),
        ("0000:39:00", "train"),
        ("0000:38:00", "serve"),
    ]


def test_boots_of_a_log_file() -> None:
    text = f"""Sep  8 07:55:37 node7 kernel: [350941.516160] {XID}
Sep  8 12:30:56 node7 kernel: [    0.000000] Linux version 6.8.0-51-generic (buildd@lcy02)
Sep  8 12:30:57 node7 kernel: [    5.212850] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.230.02
Sep  9 12:30:57 node7 kernel: [86405.212850] {XID}
"""
    for more, boots in (({}, [-1, 0]), ({"filtered_by": "NVRM"}, [-1, None])):
        found = kernel_log.probe(recorded(log(SYSLOG, text, **more)))
        assert found is not None
        assert [xid.boot for xid in found.xids or []] == boots
    assert [xid.boot for xid in parse_kernel_log(text).xids or []] == [-1, 0]


def test_boots_of_a_bug_report() -> None:
    text = f"  journalctl -b -0:\nFeb 14 00:11:33 d kernel: {XID}\n\n  journalctl -b -1:\nFeb 13 00:11:33 d kernel: {XID}\n"
    assert [xid.boot for xid in parse_kernel_log(text).xids or []] == [0, -1]


def test_the_same_line_in_two_logs_counts_once() -> None:
    dmesg = log(DMESG, f"[ 3947.590120] {XID}\n[ 3950.000000] {XID}\n")
    syslog = log(
        SYSLOG, f"Sep  8 07:55:37 n kernel: [ 3947.590120] {XID}\nSep  8 07:55:40 n kernel: [ 3950.000000] {XID}\n"
    )
    journal = log(
        JOURNAL_KERNEL, f"2025-09-08T07:55:37+0000 n kernel: {XID}\n2025-09-08T07:55:40+0000 n kernel: {XID}\n"
    )
    for answers in ((dmesg, syslog), (dmesg, journal), (dmesg, journal, syslog), (journal,)):
        found = kernel_log.probe(recorded(*answers))
        assert found is not None
        assert [xid.count for xid in found.xids or []] == [2]


def test_a_line_that_only_one_log_has_is_not_lost() -> None:
    dmesg = log(DMESG, f"[ 3950.000000] {XID}\n")
    syslog = log(
        SYSLOG, f"Sep  8 07:55:37 n kernel: [ 3947.590120] {XID}\nSep  8 07:55:40 n kernel: [ 3950.000000] {XID}\n"
    )
    found = kernel_log.probe(recorded(dmesg, syslog))
    assert found is not None
    assert sum(xid.count for xid in found.xids or []) == 2


def test_a_section_that_a_report_holds_twice() -> None:
    text = f"[ 3947.590120] {XID}\n[ 3950.000000] {XID}\n"
    assert only(parse_kernel_log(text + text)).count == 2


def test_equal_lines_without_exact_times_are_all_counted() -> None:
    text = f"Nov 15 12:43:13 n kernel: {XID}\n" * 5
    assert only(parse_kernel_log(text)).count == 5


# --- what is known, and what is not ------------------------------------------------------------------------------------


def test_a_whole_log_without_trouble() -> None:
    kernel = parse_kernel_log("[    0.000000] Linux version 6.8.0 (x)\n[    1.0] usb 1-1: new device\n")
    assert kernel.log_complete is True
    assert (kernel.xids, kernel.nvrm, kernel.aer) == ([], [], [])


def test_a_wrapped_log_says_so() -> None:
    assert parse_kernel_log("[ 9999.000000] usb 1-1: new device\n").log_complete is False


def test_a_filtered_log_knows_only_what_passes() -> None:
    found = kernel_log.probe(recorded(log(DMESG, "[1.1] NVRM: hello\n", filtered_by="nvrm|xid")))
    assert found is not None
    assert (found.log_complete, found.xids, found.aer, found.oom_kills) == (False, [], None, None)
    other = kernel_log.probe(recorded(log(DMESG, "[1.1] usb 1-1: hello\n", filtered_by="usb")))
    assert other is not None
    assert (other.xids, other.nvrm) == (None, None)
    broken = kernel_log.probe(recorded(log(DMESG, f"[1.1] {XID}\n", filtered_by="(")))
    assert broken is not None
    assert len(broken.xids or []) == 1


def test_no_log_is_not_an_empty_log() -> None:
    assert kernel_log.probe(recorded()) is None
    denied = CommandAnswer(
        argv=DMESG,
        status=Status.FAILED,
        exit_code=1,
        stderr="dmesg: read kernel buffer failed: Operation not permitted",
    )
    assert kernel_log.probe(recorded(denied, kind="recording")) is None


def test_denied_everywhere_is_said() -> None:
    from gpudoctor.probes.run import run_probe

    words = "dmesg: read kernel buffer failed: Operation not permitted"
    denied = CommandAnswer(argv=DMESG, status=Status.FAILED, exit_code=1, stderr=words)
    run, facts = run_probe(kernel_log, recorded(denied, kind="live"))
    assert (run.state, facts) == ("denied", None)
    assert run.problems == [f"dmesg: {words}"]


def test_after_a_denied_dmesg_the_journal_then_the_files() -> None:
    denied = CommandAnswer(argv=DMESG, status=Status.FAILED, exit_code=1, stderr="Operation not permitted")
    journal = log(JOURNAL_KERNEL, f"2025-09-08T07:55:37+0000 n kernel: {XID}\n")
    file = FileAnswer(path="/var/log/kern.log", status=Status.OK, text=f"Sep  8 07:55:37 n kernel: {XID}\n")
    for answers, name in (((denied, journal), JOURNAL_KERNEL[0]), ((denied, file), "/var/log/kern.log")):
        source = recorded(*answers, kind="live")
        found = kernel_log.probe(source)
        assert found is not None
        assert only(found).evidence[""].source.startswith(name)


def test_thinned_text_keeps_its_line_numbers() -> None:
    found = kernel_log.probe(
        recorded(log(DMESG, f"[1.1] usb 1\n[2.2] {XID}\n", line_numbers=[40, 90_000_000, 90_000_001]))
    )
    assert found is not None
    assert only(found).evidence[""].line == 90_000_000
    assert found.log_complete is None


def test_the_year_of_a_syslog_time() -> None:
    assert read_line("Nov 13 07:55:37 n kernel: x", NOW).time == "2023-11-13T07:55:37"
    assert read_line("Dec 24 07:55:37 n kernel: x", NOW).time == "2022-12-24T07:55:37"
    assert read_line("Nov 13 07:55:37 n kernel: x").time == "Nov 13 07:55:37"


def test_other_programs_of_a_syslog_are_not_the_kernel() -> None:
    text = """Sep  8 07:55:37 n myapp[12]: PCIe Bus Error: severity=Fatal happened to the user
Sep  8 07:55:38 n systemd[1]: Kernel panic - not syncing: said a unit
"""
    kernel = parse_kernel_log(text)
    assert (kernel.aer, kernel.other) == ([], [])


@pytest.mark.parametrize(
    "text", ["", "\n\n\n", "\x00\x01\xff", "NVRM: " * 10000, "[" * 5000 + "NVRM:", "Xid (" * 3000]
)
def test_damaged_text(text: str) -> None:
    kernel = parse_kernel_log(text)
    assert kernel.xids == []


def test_cut_anywhere() -> None:
    text = "\n".join(f"Sep 18 07:55:37 n kernel: [ 17.{n:06d}] {line}" for n, line in enumerate(LINES.values()))
    for end in range(0, len(text), 17):
        parse_kernel_log(text[:end])


def test_fifty_megabytes_of_noise_are_passed_over() -> None:
    line = "[ 3947.590120] IPv6: ADDRCONF(NETDEV_CHANGE): cali1d5c6a0536f: link becomes ready\n"
    text = line * 600_000 + f"[ 4000.000000] {XID}\n"
    started = time.monotonic()
    xid = only(parse_kernel_log(text))
    assert time.monotonic() - started < 10  # about 0.4 s on an idle machine
    assert xid.evidence[""].line == 600_001
