"""Matrices of p2pBandwidthLatencyTest."""

from __future__ import annotations

from gpudoctor.probes import topology
from gpudoctor.sources import open_text

TEXT = """\
P2P Connectivity Matrix
     D\\D     0     1     2
     0       1     1     0
     1       1     1     0
     2       0     0     1
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1      2
     0 673.20  13.15  11.90
     1  12.99 673.20  22.20
     2  13.00  21.98 673.78
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1      2
     0 673.49   2.60   1.58
     1   2.12 672.33   1.70
     2   2.12   1.60 673.78
Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)
"""


def test_slowest_pair_of_each_matrix() -> None:
    found = topology.probe(open_text(TEXT))
    assert found is not None
    assert found.p2p_test is not None
    assert (found.p2p_test.without_p2p_gbps, found.p2p_test.with_p2p_gbps) == (11.9, 1.58)
    assert found.p2p_test.evidence["with_p2p_gbps"].line == 11


def test_one_matrix_is_not_enough() -> None:
    found = topology.probe(open_text(TEXT.split("Unidirectional P2P=Enabled")[0]))
    assert found is None or found.p2p_test is None
