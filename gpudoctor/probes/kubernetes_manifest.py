"""What a pasted manifest asks for: GPU limits of a pod's containers, settings of the device plugin that stand in the wrong section."""

from __future__ import annotations

from gpudoctor.lazy import Lazy

_LIMIT = Lazy(r"^(\s*)\"?nvidia\.com/gpu(?:\.shared)?\"?:\s*[\"']?(\d+)[\"']?,?\s*$", needs=("nvidia.com/gpu",))
_KEY = Lazy(r"^(\s*)(?:- )?\"?([\w.\-/]+)\"?:\s*(?:\{|[|>][+-]?)?\s*$", needs=(":",))
_NEW_OBJECT = Lazy(r"^(?:---|kind:|apiVersion:|Name:|\$ )", needs=("---", "kind:", "apiVersion:", "Name:", "$ "))
_SHARING = Lazy(r"^(\s*)(renameByDefault|failRequestsGreaterThanOne):\s*\S+", needs=("renameBy", "failRequests"))


def container_limits(text: str) -> list[int]:
    """The limits of nvidia.com/gpu of the containers of one pod: of the object in the text that has most of them."""
    best: list[int] = []
    found: list[int] = []
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if _NEW_OBJECT.search(line):
            found = []
        limit = _LIMIT.search(line)
        if limit and _section(lines, index, len(limit[1])).lower() == "limits":
            found = [*found, int(limit[2])]
            best = found if len(found) > len(best) else best
    return best


def misplaced_sharing(text: str) -> list[str] | None:
    """Fields of sharing.timeSlicing that stand under `flags`, where the plugin ignores them; None where none of the fields is."""
    lines = text.splitlines()
    found = [(index, field) for index, line in enumerate(lines) if (field := _SHARING.search(line))]
    wrong = [field[2] for index, field in found if _section(lines, index, len(field[1])) == "flags"]
    return wrong if found else None


def _section(lines: list[str], index: int, indent: int) -> str:
    """The key under which a line stands: the nearest one above that is indented less."""
    for line in reversed(lines[max(0, index - 40) : index]):
        key = _KEY.search(line)
        if key and len(key[1]) < indent:
            return key[2]
    return ""
