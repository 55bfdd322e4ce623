"""Lines as drivers of several ages print them, to sentences."""

from __future__ import annotations

import pytest

from gpudoctor.knowledge.xid_decode import decode_recovery
from gpudoctor.knowledge.xids import decode

WORDS = "0x00000000 0x00000000 0x00000000 0x00000000"


@pytest.mark.parametrize(
    ("code", "text", "says"),
    [
        (
            13,
            "pid=60211, name=python, Graphics SM Warp Exception on (GPC 1, TPC 4, SM 0): Out Of Range Address",
            ["outside its memory", "GPC 1, TPC 4, SM 0", "python"],
        ),
        (
            13,
            "Graphics SM Warp Exception on (GPC 0, TPC 1): Illegal Instruction Encoding",
            ["instruction", "GPC 0, TPC 1"],
        ),
        (
            13,
            "Graphics SM Global Exception on (GPC 4, TPC 0): Multiple Warp Errors",
            ["Several warps failed", "GPC 4"],
        ),
        (
            13,
            "pid='<unknown>', name=<unknown>, Graphics Exception: ESR 0x50c730=0x201000e 0x50c734=0x20 0x50c728=0xf81eb60",
            ["outside its memory", "GPC 1, TPC 0"],
        ),
        (13, "Graphics Exception: ESR 0x405840=0xa204020a", ["registers"]),
        (
            13,
            "Graphics Exception: ChID 0008, Class 0000c9c0, Offset 00000510, Data 0017e2ac",
            ["method 00000510", "class c9c0"],
        ),
        (
            31,
            "pid=5, name=python3, Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_3 faulted @ 0x7f4a_10000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
            ["graphics", "read", "0x7f4a10000000", "no mapped region", "python3"],
        ),
        (
            31,
            "Ch 00000003, intr 00000000. MMU Fault: ENGINE HOST9 HUBCLIENT_HOST faulted @ 0x1_01700000. Fault is of type FAULT_INFO_TYPE_UNSUPPORTED_KIND ACCESS_TYPE_VIRT_WRITE",
            ["host9", "write", "kind of page"],
        ),
        (43, "pid=7, name=a.out, Ch 00000008", ["00000008", "a.out"]),
        (45, "pid=7, name=a.out, Ch 00000010 caused by previous Xid 94", ["because of Xid 94"]),
        (
            48,
            "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at physAddr 0x2a1f0040 partition 7, subpartition 1.",
            ["DRAM", "0x2a1f0040", "partition 7"],
        ),
        (
            48,
            "An uncorrectable double bit error (DBE) has been detected on GPU in the L2 cache.",
            ["on-chip", "SRAM threshold"],
        ),
        (
            63,
            "Row Remapper: New row (0x000000002a1f0040) marked for remapping, reset gpu to activate.",
            ["0x000000002a1f0040", "spare"],
        ),
        (
            63,
            "Dynamic Page Retirement: New page retired, reload the driver to activate. (0x00000000000120d1)",
            ["retired"],
        ),
        (
            64,
            "Row Remapper Error: (0x000000002a1f0040) - All reserved rows for bank are remapped",
            ["could not be remapped", "All reserved rows"],
        ),
        (
            74,
            "NVLink: fatal error detected on link 5(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
            ["NVLink 5", "fatal", "word 1 bit 16", "connection"],
        ),
        (94, "pid=4, name=python3, Contained: SM (0x1). RST: No, D-RST: No", ["Contained error in SM", "python3"]),
        (95, "Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No", ["LTC TAG", "reset"]),
        (
            119,
            "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20801702 0x8).",
            ["after 6s", "GSP_RM_CONTROL"],
        ),
        (119, "Timeout waiting for RPC from GSP! Expected function 10 (FREE).", ["FREE"]),
        (
            149,
            f"NETIR_LINK_DOWN Fatal XC0 i0 Link 09 (0x00400011 0x00000000 {WORDS})",
            ["NVLink 9", "reset", "signal quality"],
        ),
        (
            149,
            f"NETIR_LINK_DOWN Fatal   XC0 i0 Link 14 (0x004505c6 0x00000000 {WORDS})",
            ["NVLink 14", "reset", "signal quality"],
        ),
        (149, f"NETIR_LINK_DOWN Fatal XC0 i0 Link 02 (0x02100011 0x00000000 {WORDS})", ["other end"]),
        (145, f"RLW_RXPIPE Nonfatal XC0 i0 Link 03 (0x00000006 0x00000001 {WORDS})", ["nothing to do"]),
        (145, f"RLW_RXPIPE Nonfatal XC0 i0 Link 03 (0x00000086 0x00000001 {WORDS})", ["needs a reset"]),
        (150, f"MSE_WATCHDOG Fatal XC0 i0 Link -1 (0x00000000 0x00000000 {WORDS})", ["MSE_WATCHDOG", "reset"]),
        (148, f"NVLPW Nonfatal XC0 i0 Link 02 (0x0000007f 0x12345678 {WORDS})", ["no row"]),
        (154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", ["GPU reset"]),
        (154, "GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)", ["reboot of the node"]),
        (154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", ["recovered"]),
        (154, "GPU recovery action changed from 0x0 (None) to 0xa (Whatever)", ["0xa"]),
    ],
)
def test_line_to_sentence(code: int, text: str, says: list[str]) -> None:
    sentence = decode(code, text)
    assert sentence is not None
    for words in says:
        assert words in sentence, sentence


@pytest.mark.parametrize("code", [13, 31, 43, 45, 48, 63, 64, 69, 74, 94, 95, 119, 136, 144, 149, 154, 79, 9999])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "pid=",
        "\x00\x1b[31m[/red]",
        "(" * 5000,
        "link (0x",
        "Fault is of type",
        "to 0x",
        "0x" * 3000,
        "Expected function 76 (",
    ],
)
def test_damaged_lines_give_nothing_or_a_sentence(code: int, text: str) -> None:
    sentence = decode(code, text)
    assert sentence is None or sentence.endswith(".")


def test_recovery_values() -> None:
    assert decode_recovery("GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)") == (0, 4)
    assert decode_recovery("GPU recovery action changed") is None
