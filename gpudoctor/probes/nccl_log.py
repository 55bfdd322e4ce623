"""NCCL_DEBUG=INFO: which version, which ranks came, which way the data goes, and what was refused.

node-a:811:847 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.4.17<0>
node-a:811:847 [0] NCCL INFO comm 0x55d0 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x6d - Init START
node-a:811:847 [0] NCCL INFO NVLS multicast support is available on dev 0
node-a:811:847 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
node-a:811:847 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA
node-a:811:847 [0] NCCL INFO 24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, ...
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from gpudoctor.facts import Evidence, NcclPair
from gpudoctor.lazy import Lazy
from gpudoctor.probes.collect import quote
from gpudoctor.probes.nccl_tests import VERSION, version_of
from gpudoctor.sources.answers import CommandAnswer

_VIA = Lazy(
    r"\b(?P<a>\d+)\[\w+\] -> (?P<b>\d+)\[\w+\] (?:\[(?:send|receive)\] )?via (?P<via>(?:P2P|SHM|NET|NVLS|COLLNET)[\w/. -]*)"
)
_ANY_VIA = Lazy(r"\bvia ((?:P2P|SHM|NET|NVLS|COLLNET)(?:/[\w-]+)*)")
_USING = Lazy(r"\b(NET/\w+) : Using (.*)", needs=(" : Using ",))
_NETWORK = Lazy(r"\bUsing network (\S.*?)\s*$", re.MULTILINE, needs=("Using network ",))
_INTERFACE = Lazy(r"\[\d+\]([\w.\-]+):|OOB ([\w.\-]+):")
_HCA = Lazy(r"\[\d+\](?:\{\d+\} )?([\w.+-]+:\d+)/(?:IB|RoCE)")
_RATE = Lazy(r"NET/IB: \[\d+\] ([\w.-]+):[\w.-]*:(\d+)/\w+ (?:provider=\w+ )?speed=(\d+)", needs=("speed=",))
_ENV = Lazy(r"\b(NCCL_\w+) set (?:by environment )?to (\S+?)\.?(?:\s|$)", needs=("NCCL_",))
_INIT = Lazy(r"\bcomm (0x[0-9a-f]+) rank (\d+) n[rR]anks (\d+) .*?- Init (START|COMPLETE)", needs=("- Init ",))
_COMM_ID = Lazy(r"\bcommId (0x[0-9a-f]+)")
_NODES = Lazy(r"\bnRanks (\d+) nNodes (\d+)\b", needs=(" nNodes ",))
_CHANNELS = Lazy(
    r"\b(\d+) coll channels(?:, \d+ collnet channels)?(?:, (\d+) nvls channels)?", needs=(" coll channels",)
)
_NVLS = Lazy(
    r"NVLS multicast support is (not )?available(?:.*transport (enabled|disabled))?",
    needs=("NVLS multicast support is ",),
)
_NVLS_USED = Lazy(
    r"\bConnected NVLS tree\b|\bvia NVLS\b|\bnvlsRanks [1-9]", needs=("Connected NVLS tree", "via NVLS", "nvlsRanks ")
)
_GDR = Lazy(r"/GDRDMA\b|GPU Direct RDMA (?:\([\w-]+\) )?(?:E|e)nabled for", needs=("/GDRDMA", "GPU Direct RDMA "))
_GDR_OFF = Lazy(r"GPU Direct RDMA (?:\([\w-]+\) )?[Dd]isabled for", needs=("GPU Direct RDMA ",))
_OVER_IB = Lazy(r"\] (?:\[(?:send|receive)\] )?via NET/IB/\d", needs=("via NET/IB/",))
_P2P_OFF = Lazy(
    r"P2P is disabled between (?:NVLINK )?connected GPUs (\d+) and (\d+)", needs=("P2P is disabled between ",)
)
_PAIRS_KEPT = 4096


def of_logs(texts: Sequence[CommandAnswer]) -> dict[str, Any]:
    """Fields of `Nccl` that these logs tell; evidence under "evidence"."""
    whole = "\n".join(answer.stdout for answer in texts)
    versions = unique(
        (match[1] or match[2]).partition("+")[0] for match in VERSION.finditer(whole) if match[1] or match[2]
    )
    rates = {f"{match[1]}:{match[2]}": int(match[3]) / 1000 for match in _RATE.finditer(whole)}
    hcas = unique(name for line in _USING.finditer(whole) for name in _HCA.findall(line[2]))
    found: dict[str, Any] = {
        "version": version_of(whole),
        "versions": versions,
        "transports": unique(_transports(whole)),
        "interfaces": unique(name for answer in texts for name in _interfaces(answer)),
        "env": {match[1]: match[2] for match in _ENV.finditer(whole)} or None,
        "network": _last(match[1] for match in _NETWORK.finditer(whole)),
        "hcas": hcas or (list(rates) or None),
        "hca_rates_gbit": [rates[name] for name in hcas or list(rates)]
        if rates and set(hcas or rates) <= set(rates)
        else None,
        "pairs": _pairs(whole),
        "p2p_refused": unique(f"{match[1]}-{match[2]}" for match in _P2P_OFF.finditer(whole)),
        "nvls_available": _nvls(whole),
        "gpu_direct_rdma": True
        if _GDR.search(whole)
        else False
        if _GDR_OFF.search(whole) or _OVER_IB.search(whole)
        else None,
    }
    if match := _CHANNELS.search(whole):
        found["channels"] = int(match[1])
        found["nvls_channels"] = int(match[2]) if match[2] is not None else None
    found |= _ranks(whole)
    found["evidence"] = _evidence(texts)
    return found


def unique(names: Iterable[str]) -> list[str] | None:
    """Each once, in order; None when there is none."""
    return list(dict.fromkeys(names)) or None


def _last(values: Iterable[str]) -> str | None:
    found = list(values)
    return found[-1] if found else None


def _transports(text: str) -> list[str]:
    return [*_ANY_VIA.findall(text), *(match[1] for match in _USING.finditer(text))]


def _interfaces(answer: CommandAnswer) -> list[str]:
    lines = [match[2] for match in _USING.finditer(answer.stdout)]
    return [match[1] or match[2] for line in lines for match in _INTERFACE.finditer(line)]


def _pairs(text: str) -> list[NcclPair] | None:
    """The first way seen of each ordered pair of ranks."""
    seen: dict[tuple[int, int], str] = {}
    for match in _VIA.finditer(text):
        pair = int(match["a"]), int(match["b"])
        if pair not in seen and len(seen) < _PAIRS_KEPT:
            seen[pair] = match["via"].split(" comm ")[0].strip()
    return [NcclPair(a=a, b=b, transport=via) for (a, b), via in sorted(seen.items())] or None


def _nvls(text: str) -> bool | None:
    """Whether the switches reduce: said so by a connected tree, or denied; support alone does not say that it is used."""
    if _NVLS_USED.search(text):
        return True
    match = _NVLS.search(text)
    if match is None:
        return None
    return False if match[1] or match[2] == "disabled" else None


def _ranks(text: str) -> dict[str, Any]:
    """Of the largest communicator: its ranks, and which of them began and finished initialising.

    A rank is absent when others of several hosts or processes are in the text and wait. One rank's log proves nothing.
    """
    began: dict[tuple[str, int], set[int]] = {}
    ready: dict[tuple[str, int], set[int]] = {}
    for line in text.split("\n"):
        match = _INIT.search(line)
        if match is None:
            continue
        count = int(match[3])
        name = _COMM_ID.search(line)
        key = (name[1] if name else "", count)
        (began if match[4] == "START" else ready).setdefault(key, set()).add(int(match[2]))
    nodes = [(int(match[1]), int(match[2])) for match in _NODES.finditer(text)]
    if not began and not ready:
        return {"rank_count": max(nodes)[0], "node_count": max(nodes)[1]} if nodes else {}
    waiting = [key for key in began if len(began[key]) > len(ready.get(key, set()))]
    key = max(waiting or [*began, *ready], key=lambda key: key[1])
    started, done = began.get(key, set()), ready.get(key, set())
    found: dict[str, Any] = {
        "rank_count": key[1],
        "ranks_started": sorted(started) or None,
        "ranks_ready": sorted(done) or None,
        "node_count": next((count for ranks, count in nodes if ranks == key[1]), None),
    }
    absent = set(range(key[1])) - started - done if key[1] <= _PAIRS_KEPT else set()
    # more than half of the ranks are in the text, none is ready, some never came
    if started and not done and absent and 2 * len(started) >= key[1]:
        found["ranks_absent"] = sorted(absent)
    return found


_QUOTED = (
    ("transports", _ANY_VIA),
    ("transports", _USING),
    ("interfaces", _USING),
    ("version", VERSION),
    ("network", _NETWORK),
    ("nvls_available", _NVLS),
    ("p2p_refused", _P2P_OFF),
    ("ranks_absent", _INIT),
    ("gpu_direct_rdma", _GDR_OFF),
    ("channels", _CHANNELS),
)


def _evidence(texts: Sequence[CommandAnswer]) -> dict[str, Evidence]:
    found: dict[str, Evidence] = {}
    for answer in texts:
        for name, pattern in _QUOTED:
            match = None if name in found else pattern.search(answer.stdout)
            if match is not None:
                found[name] = quote(answer, answer.stdout.count("\n", 0, match.start()))
    return found
