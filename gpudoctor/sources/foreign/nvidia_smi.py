"""Every output of nvidia-smi that is told by its content: XML, -q, the table (old and new), -L, topo, nvlink, errors."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.lazy import Lazy
from gpudoctor.sources import requests as known
from gpudoctor.sources.answers import Status
from gpudoctor.sources.foreign.answer import Found, command, pick

KIND = DocumentKind.COMMAND

_XML = Lazy(r"<nvidia_smi_log\b", needs=("<nvidia_smi_log",))
_Q = Lazy(
    r"^[ \t]*=+NVSMI LOG=+[ \t]*$|^Timestamp {10,}: .*\nDriver Version {5,}: [\d.]+",
    re.MULTILINE,
    needs=("NVSMI LOG", "Timestamp"),
)
_TABLE = Lazy(r"^[ \t]*\|[ \t]*NVIDIA-SMI[ \t]+[\d.]+", re.MULTILINE, needs=("NVIDIA-SMI",))
_TABLE_LINE = Lazy(r"^[ \t]*[|+](?=[-=+| \dA-Z])(?:.*[|+])?[ \t]*$")
# A row without its header, as people paste one: "|   0  Tesla K40m          On   | 0000:04:00.0     Off |"
_TABLE_ROW = Lazy(
    r"^[ \t]*\|[ \t]+(?:\d+[ \t]+\S.*\b(?:On|Off|N/A)[ \t]*\|[ \t]*(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d"
    r"|(?:N/A|ERR!|\d+%)[ \t]+\S+[ \t]+\S+.*\bM(?:i)?B[ \t]*/)",
    re.MULTILINE,
    needs=("|",),
)
_DATE = Lazy(r"^[ \t]*[A-Z][a-z]{2}[ ]+[A-Z][a-z]{2}[ ]+\d+[ ]+\d\d:\d\d:\d\d")
_LIST = Lazy(r"^[ \t]*GPU \d+: .+\(UUID: (?:GPU|MIG)-", re.MULTILINE, needs=("(UUID: ",))
_LIST_LINE = Lazy(r"^[ \t]*(?:GPU \d+: .+\(UUID: |MIG \S+[ \t]+Device[ \t]+\d+:)")
_LINK = Lazy(r"^[ \t]*(?:Link \d+: (?:[\d.]+ GB/s|<inactive>)|GPU \d+: .+\(UUID: )")
_LINK_COUNT = Lazy(
    r"^[ \t]*(?:Link \d+: [A-Z][\w \-]*(?:Errors|BER|events)(?: - \d+)?: [\d.eE+-]+|GPU \d+: .+\(UUID: )"
)
_LINK_COUNTED = Lazy(
    r"^[ \t]*Link \d+: (?:(?:Replay|Recovery|CRC|Symbol|Effective) Errors|Effective BER): [\d.]",
    re.MULTILINE,
    needs=("Link ",),
)
_LINK_STATE = Lazy(r"^[ \t]*Link \d+: (?:[\d.]+ GB/s|<inactive>)", re.MULTILINE, needs=("Link ",))
_TOPO = Lazy(
    r"^[ \t]*(?:GPU\d+[ \t]+)+(?:(?:NIC|mlx5_|GPU|nic)\S*[ \t]+)*.*\bCPU Affinity|^[ \t]*GPU0[ \t]+(?:X|NV\d|SYS|NODE|PHB|PXB|PIX)\b",
    re.MULTILINE,
    needs=("CPU Affinity", "GPU0"),
)
# topo -p2p: what it was asked for (read, write, ...) is not in the output; reading is what people ask for
_P2P = Lazy(r"^[ \t]*GPU0[ \t]+X[ \t]+(?:OK|C?NS|GNS|TNS|DR|U)\b", re.MULTILINE, needs=("GPU0",))
_P2P_LINE = Lazy(r"^[ \t]*GPU\d+[ \t]+(?:X|OK|C?NS|GNS|TNS|DR|U|GPU\d+)\b")
_TOPO_LINE = Lazy(
    r"^[ \t]*(?:(?:GPU|NIC|mlx5_)\S*[ \t]+(?:GPU|NIC|mlx5|X\b|NV\d|SYS|NODE|PHB|PXB|PIX|SOC)|Legend:|(?:X|SYS|NODE|PHB|PXB|PIX|NV#)[ \t]+=|NIC Legend|NIC\d+: )"
)
_OWN_ERROR = Lazy(
    r"""^[ \t]*(?:nvidia-smi:[ ])?(?:
      Failed[ ]to[ ]initialize[ ]NVML:
    | NVIDIA-SMI[ ]has[ ]failed[ ]because
    | NVIDIA-SMI[ ]couldn't[ ]find[ ]
    | NVML[ ]library[ ]version:
    | No[ ]devices[ ](?:were[ ])?found
    | Unable[ ]to[ ]determine[ ](?:the[ ]device[ ]handle|number[ ]of[ ]available)
    | Unable[ ]to[ ]read[ ]from[ ]the[ ]PCI
    )""",
    re.MULTILINE | re.VERBOSE,
)
_SHELLS_ERROR = Lazy(
    r"""^[ \t]*(?:nvidia-smi:[ ])?(?:
      (?:-?\w*sh:[ ](?:\d+:[ ]|line[ ]\d+:[ ])?)?(?:/[\w/.-]*)?nvidia-smi:[ ](?:command[ ])?not[ ]found
    | \w*sh:[ ]command[ ]not[ ]found:[ ]nvidia-smi
    | [Cc]ommand[ ]'?nvidia-smi'?[ ]not[ ]found
    | (?:-?\w*sh:[ ](?:line[ ]\d+:[ ])?)?(?:/[\w/.-]*)?nvidia-smi:[ ](?:No[ ]such[ ]file[ ]or[ ]directory|Permission[ ]denied)
    | The[ ]program[ ]'nvidia-smi'[ ]is[ ]currently[ ]not[ ]installed
    | 'nvidia-smi'[ ]is[ ]not[ ]recognized
    )""",
    re.MULTILINE | re.VERBOSE,
    needs=("not found", "No such file or directory", "Permission denied", "not installed", "not recognized"),
)
_NOT_FOUND = Lazy(r"not found|No such file|currently not installed|not recognized")


def recognise(text: str) -> bool:
    """Whether any output of nvidia-smi occurs in this text."""
    head = text[:65536]
    return any(
        pattern.search(head) for pattern in (_XML, _Q, _TABLE, _TABLE_ROW, _LIST, _LINK_STATE, _TOPO)
    ) or is_error(text)


def is_error(text: str) -> bool:
    """Whether a short text is what nvidia-smi says when it fails; long ones are logs that quote it."""
    return len(text) < 4096 and any(error.search(text) for error in (_OWN_ERROR, _SHELLS_ERROR))


def requests(text: str) -> Found:
    """Each kind of output that occurs, the first of its kind."""
    found: Found = {}
    for part in (_xml, _query, _table, _topology, _nvlink, _listing):
        found |= {request: answer for request, answer in part(text).items() if request not in found}
    if known.NVIDIA_SMI not in found and is_error(text):
        found |= error(text)
    return found


def error(text: str) -> Found:
    """nvidia-smi's own failure. The shell's "command not found" is not an output but an absence."""
    lines = text.split("\n")
    wanted = [i for i, line in enumerate(lines) if _OWN_ERROR.match(line) or _SHELLS_ERROR.match(line)]
    said, numbers = pick(text, wanted)
    missing = all(
        _NOT_FOUND.search(lines[i]) and "devices" not in lines[i].lower() and "libnvidia" not in lines[i]
        for i in wanted
    )
    status = Status.NOT_FOUND if missing else Status.FAILED
    return command(known.NVIDIA_SMI, said, status=status, lines=numbers)


def _xml(text: str) -> Found:
    match = _XML.search(text)
    if match is None:
        return {}
    start = text.rfind("<?xml", 0, match.start())
    start = match.start() if start < 0 or match.start() - start > 400 else start
    end = text.find("</nvidia_smi_log>", start)
    whole = end >= 0
    body = text[start : end + len("</nvidia_smi_log>")] if whole else text[start:]
    first = text.count("\n", 0, start) + 1
    return command(known.NVIDIA_SMI_XML, body, partial=not whole, lines=_from(first, body))


def _query(text: str) -> Found:
    """-q; one of only some sections (-d ECC) is partial."""
    match = _Q.search(text)
    if match is None:
        return {}
    another = _Q.search(text, match.end() + 200)
    body = text[match.start() : another.start() if another else len(text)]
    first = text.count("\n", 0, match.start()) + 1
    partial = "Product Name" not in body
    return command(known.NVIDIA_SMI_Q, body, partial=partial, lines=_from(first, body))


def _table(text: str) -> Found:
    lines = text.split("\n")
    header = next((i for i, line in enumerate(lines) if _TABLE.match(line)), None)
    if header is None:
        rows = [
            i
            for i, line in enumerate(lines)
            if _TABLE_ROW.match(line) or (_TABLE_LINE.match(line) and len(line.strip()) > 60)
        ]
        if not rows or not _TABLE_ROW.search(text):
            return {}
        body, numbers = pick(text, rows)
        return command(known.NVIDIA_SMI, body, partial=True, lines=numbers)
    start = header
    while start > 0 and _TABLE_LINE.match(lines[start - 1]):
        start -= 1
    if start > 0 and _DATE.match(lines[start - 1]):
        start -= 1
    end = header + 1
    while end < len(lines) and (
        _TABLE_LINE.match(lines[end])
        or (not lines[end].strip() and end + 1 < len(lines) and _TABLE_LINE.match(lines[end + 1]))
    ):
        end += 1
    body = "\n".join(lines[start:end])
    # A complete table ends with its processes, or at least with a closing frame after the rows.
    partial = _TABLE_ROW.search(body) is None
    return command(known.NVIDIA_SMI, body, partial=partial, lines=list(range(start + 1, end + 1)))


def _listing(text: str) -> Found:
    if _LINK_STATE.search(text) or _LINK_COUNTED.search(text):
        return {}
    return _lines(text, _LIST, _LIST_LINE, known.NVIDIA_SMI_L)


def _nvlink(text: str) -> Found:
    states = _lines(text, _LINK_STATE, _LINK, known.NVIDIA_SMI_NVLINK)
    return states | _lines(text, _LINK_COUNTED, _LINK_COUNT, known.NVIDIA_SMI_NVLINK_ERRORS)


def _topology(text: str) -> Found:
    if _P2P.search(text):
        return _lines(text, _P2P, _P2P_LINE, known.NVIDIA_SMI_P2P_READ)
    return _lines(text, _TOPO, _TOPO_LINE, known.NVIDIA_SMI_TOPO)


def _lines(text: str, sign: Lazy, line: Lazy, argv: tuple[str, ...]) -> Found:
    if not sign.search(text):
        return {}
    wanted = [i for i, candidate in enumerate(text.split("\n")) if line.match(candidate)]
    body, numbers = pick(text, wanted)
    return command(argv, body, lines=numbers)


def _from(first: int, body: str) -> list[int] | None:
    """Line numbers of a text that begins at line `first` of the original; None where they are the same."""
    return None if first == 1 else list(range(first, first + body.count("\n") + 1))
