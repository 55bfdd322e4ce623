"""`nvidia-smi -q` and `nvidia-smi -q -x` as one kind of tree, so that one table of fields reads both. Damaged input gives what came before the damage."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.lazy import Lazy

_DEPTH_LIMIT = 40
_NODE_LIMIT = 400_000


class Node(msgspec.Struct):
    """A label or tag with its value and what stands below it. `line` is 1-based, `text` the line as it stood."""

    name: str
    value: str = ""
    line: int = 0
    text: str = ""
    children: list[Node] = []

    def child(self, *names: str) -> Node | None:
        """The first child with one of these names."""
        return next((node for node in self.children if node.name in names), None)


# "    GPU Current Temp                  : 34 C"; labels may hold a colon only before a blank-less value, so split at " : ".
_PAIR = Lazy(r"^(?P<label>[^:]*?\S)\s*:(?:\s+(?P<value>.*)|)$")
_GPU_HEADER = Lazy(r"^\s*GPU\s+(?P<bdf>(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_GPU_ONLY_NUMBER = Lazy(r"^\s*GPU\s+(?P<index>\d+)\s*:?\s*$")


def parse_q(text: str) -> Node:
    """The tree of `nvidia-smi -q` text (also of a part, as `-d ECC` prints). Names are lower case; GPUs are children named `gpu`.

    Structure comes from indentation. Text that lost it (a chat paste) is read with the last heading as parent.
    """
    root = Node(name="")
    lines = text.split("\n")
    bodies = [line for line in lines if line.strip() and ":" in line]
    flat = bool(bodies) and not any(line[:1] in " \t" for line in bodies)
    stack: list[tuple[int, Node]] = [(-1, root)]
    for number, raw in enumerate(lines, 1):
        line = raw.expandtabs(4).rstrip()
        body = line.strip()
        if not body or body.startswith(("====", "[...", "--")):
            continue
        header = _GPU_HEADER.match(line)
        if header or _GPU_ONLY_NUMBER.match(line):
            value = header["bdf"] if header else ""
            gpu = Node(name="gpu", value=value, line=number, text=body, children=[])
            root.children.append(gpu)
            stack = [(-1, root), (len(line) - len(line.lstrip()), gpu)]
            continue
        pair = _PAIR.match(body)
        indent = len(line) - len(line.lstrip())
        name = (pair["label"] if pair else body).strip().lower()
        node = Node(
            name=" ".join(name.split()),
            value=(pair["value"] or "").strip() if pair else "",
            line=number,
            text=body,
            children=[],
        )
        if flat:
            _add_flat(stack, node, is_heading=pair is None)
            continue
        while len(stack) > 1 and stack[-1][0] >= indent:
            stack.pop()
        stack[-1][1].children.append(node)
        if len(stack) < _DEPTH_LIMIT:
            stack.append((indent, node))
    return root


def _add_flat(stack: list[tuple[int, Node]], node: Node, is_heading: bool) -> None:
    """Without indentation: below the last heading, which stands below the GPU."""
    depth = 2 if len(stack) > 1 and stack[1][1].name == "gpu" else 1
    if is_heading:
        del stack[depth:]
        stack[-1][1].children.append(node)
        stack.append((0, node))
    else:
        stack[-1][1].children.append(node)


class _Stop(Exception):
    """Ends the parsing of a document that is too deep or too big, or declares entities."""


def parse_xml(text: str) -> Node:
    """The tree of `nvidia-smi -q -x`. Names are tags, a GPU's value is its `id`. Broken XML gives the part before the fault."""
    from xml.parsers import expat

    root = Node(name="")
    start = text.find("<?xml")
    if start < 0:
        start = text.find("<nvidia_smi_log")
    if start < 0:
        start = text.find("<gpu")
    if start < 0:
        return root
    lines = text.split("\n")
    skipped = text.count("\n", 0, start)
    stack = [root]
    count = 0

    def begin(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if len(stack) >= _DEPTH_LIMIT or count > _NODE_LIMIT:
            raise _Stop
        number = parser.CurrentLineNumber + skipped
        source = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        node = Node(name=tag.lower(), value=attributes.get("id", ""), line=number, text=source, children=[])
        stack[-1].children.append(node)
        stack.append(node)

    def end(_tag: str) -> None:
        node = stack.pop()
        node.value = node.value.strip()

    def characters(data: str) -> None:
        if len(stack) > 1:
            stack[-1].value += data

    def entity(*_: object) -> None:
        raise _Stop

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.EntityDeclHandler = entity
    try:
        parser.Parse(_without_encoding(text[start:]), True)
    except (expat.ExpatError, _Stop):
        for node in stack[1:]:
            node.value = node.value.strip()
    return root


def _without_encoding(text: str) -> str:
    """The text is decoded already: a declared encoding would be applied a second time."""
    head, separator, rest = text.partition("?>")
    if head.startswith("<?xml") and separator:
        head = re.sub(r"\s+encoding\s*=\s*(['\"]).*?\1", "", head)
    return head + separator + rest


def gpu_nodes(root: Node) -> list[Node]:
    """The GPUs of a tree. Where a part of `-q` names none, its fields are taken as those of one GPU."""
    log = root.child("nvidia_smi_log") or root
    return [node for node in log.children if node.name == "gpu"]


def flatten(node: Node, skip: frozenset[str]) -> dict[str, Node]:
    """Every leaf below a node by its path, `a/b/c`, and by each shorter end of the path; the first of a name holds. Below `skip` nothing is read."""
    found: dict[str, Node] = {}

    def walk(current: Node, path: tuple[str, ...]) -> None:
        for child in current.children:
            if child.name in skip:
                continue
            here = (*path, child.name)
            if child.value or not child.children:
                for first in range(len(here)):
                    found.setdefault("/".join(here[first:]), child)
            if child.children:
                walk(child, here)

    walk(node, ())
    return found
