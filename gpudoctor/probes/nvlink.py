"""`nvidia-smi nvlink -s` (and `-e`): the links of each GPU.

    GPU 0: NVIDIA B300 SXM6 AC (UUID: GPU-37a5f268-5d57-0389-af09-5b681d904f72)
             Link 0: 53.125 GB/s
             Link 1: <inactive>
             Link 0: Replay Errors: 0
             Link 0: Effective BER: 15e-255

A GPU without links is listed without any, or not at all.
"""

from __future__ import annotations

from typing import Any

from gpudoctor.facts import Evidence, Gpu, NvLink
from gpudoctor.lazy import Lazy

SOURCE = "nvidia-smi nvlink -s"
_GPU = Lazy(r"^\s*GPU (?P<index>\d+): (?P<name>.*?)(?: \(UUID: (?P<uuid>GPU-[^)]*)\))?\s*$")
_LINK = Lazy(r"^\s*Link (?P<link>\d+):\s*(?P<what>.*?)\s*$")
_SPEED = Lazy(r"^(?P<speed>\d+(?:\.\d+)?)\s*GB/s$")
_COUNTERS = {
    "replay errors": "replay_errors",
    "recovery errors": "recovery_errors",
    "crc errors": "crc_errors",
    "total link recovery events": "recovery_errors",  # NVLink 5
}
_RATES = {"effective ber": "effective_ber", "symbol ber": "symbol_ber"}
_RATE = Lazy(r"\d+(?:\.\d+)?(?:[eE]-?\d+)?")


def parse_nvlink(text: str, source: str = SOURCE) -> list[Gpu] | None:
    """GPUs with their `nvlinks`; None when the text shows no link."""
    gpus: list[tuple[dict[str, Any], dict[int, dict[str, Any]]]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if match := _GPU.match(line):
            head = {
                "index": int(match["index"]),
                "name": match["name"],
                "uuid": match["uuid"],
                "line": number,
                "text": line.strip(),
            }
            gpus.append((head, {}))
        elif match := _LINK.match(line):
            if not gpus:
                # `-i 0 | grep Link`: one GPU that is not named
                gpus.append(({"index": None, "name": None, "uuid": None, "line": number, "text": line.strip()}, {}))
            link = gpus[-1][1].setdefault(int(match["link"]), {"line": number, "text": line.strip()})
            _add(link, match["what"], number, line)
    found = [
        Gpu(
            index=head["index"],
            name=head["name"],
            uuid=head["uuid"],
            nvlinks=[_link(source, index, links[index]) for index in sorted(links)],
            evidence={
                name: Evidence(source=source, line=head["line"], text=head["text"]) for name in ("", "nvlinks")
            },
        )
        for head, links in gpus
        if links
    ]
    return found or None


def _add(link: dict[str, Any], what: str, number: int, line: str) -> None:
    if speed := _SPEED.match(what):
        link.update(active=True, speed_gbps=float(speed["speed"]))
    elif what.strip("<>").lower() == "inactive":
        link.update(active=False, line=number, text=line.strip())
    else:
        for part in what.split(","):
            label, _, count = part.partition(":")
            name = _COUNTERS.get(label.strip().lower())
            if name and count.strip().isdecimal():
                link[name] = int(count.strip())
            rate = _RATES.get(label.strip().lower())
            if rate and (match := _RATE.fullmatch(count.strip())):
                link[rate] = float(match[0])


def _link(source: str, index: int, link: dict[str, Any]) -> NvLink:
    quoted = Evidence(source=source, line=link.pop("line"), text=link.pop("text"))
    return NvLink(link=index, evidence={"": quoted}, **link)
