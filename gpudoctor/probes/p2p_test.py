"""The matrices of CUDA's sample p2pBandwidthLatencyTest: how fast GPUs copy to each other with P2P, and how fast without."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gpudoctor.facts import Document, PeerCopyTest
from gpudoctor.probes.collect import quote_document

_HEADS = (
    ("without_p2p_gbps", "Unidirectional P2P=Disabled Bandwidth Matrix"),
    ("with_p2p_gbps", "Unidirectional P2P=Enabled Bandwidth"),
)


def read_p2p_test(documents: Sequence[Document]) -> PeerCopyTest | None:
    """The slowest pair of either matrix, in the first text that holds both; None where none does."""
    for document in documents:
        if document.part or "P2P=Enabled Bandwidth" not in document.text:
            continue
        lines = document.text.splitlines()
        found: dict[str, float] = {}
        evidence = {}
        for name, head in _HEADS:
            at = next((index for index, line in enumerate(lines) if line.strip().startswith(head)), None)
            pairs = [] if at is None else _pairs(lines[at + 2 : at + 66])
            if at is not None and pairs:
                found[name] = min(pairs)
                evidence[name] = quote_document(document, at)
        if len(found) == len(_HEADS):
            return msgspec.convert(found | {"evidence": evidence}, PeerCopyTest)
    return None


def _pairs(lines: Sequence[str]) -> list[float]:
    """The values off the diagonal, of rows such as `     1  12.99 673.20  22.20`."""
    values: list[float] = []
    for row, line in enumerate(lines):
        words = line.split()
        if not words or words[0] != str(row):
            break
        try:
            numbers = [float(word) for word in words[1:]]
        except ValueError:
            break
        values += [number for column, number in enumerate(numbers) if column != row and number > 0]
    return values
