"""Splits plain lines into blocks: a command with its output, or lines that no prompt precedes."""

from __future__ import annotations

from collections import Counter

import msgspec

from gpudoctor.knowledge.error_lines import tells
from gpudoctor.lazy import Lazy
from gpudoctor.sources.text.clean import Line
from gpudoctor.sources.text.prompts import Prompt, prompt, python_more
from gpudoctor.sources.text.shell import enters_container

_NUMBER = Lazy(r"\d+")
_HEADING = Lazy(r"#{2,6} \S|\*\*[^*]+\*\*:?\s*$")


class Block(msgspec.Struct, kw_only=True):
    """`command` is None for lines without a prompt before them."""

    command: str | None = None
    line: Line | None = None  # the prompt's line
    python: bool = False
    container: bool = False  # the prompt is inside a container
    host: str | None = None  # of the prompt
    output: list[Line] = []

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.output)

    @property
    def numbers(self) -> list[int]:
        return [line.number for line in self.output]

    def trimmed(self) -> list[Line]:
        """The output without blank lines around it."""
        lines = self.output
        start, end = 0, len(lines)
        while start < end and not lines[start].text.strip():
            start += 1
        while end > start and not lines[end - 1].text.strip():
            end -= 1
        return lines[start:end]


def blocks(lines: list[Line]) -> list[Block]:
    """The blocks in order. Where every prompt is a container's, the container is what the paste is of."""
    found: list[Block] = [Block()]
    continued: str | None = None
    for line in lines:
        if continued is not None:
            _continue(found[-1], line.text)
            continued = _continuation(line.text)
            continue
        block = found[-1]
        more = python_more(line.text) if block.python and not block.output else None
        if more is not None:
            block.command = f"{block.command}\n{more}"
            continue
        seen = prompt(line.text)
        if seen is None:
            block.output.append(line)
            continue
        found.append(_started(seen, line))
        continued = _continuation(seen.command) if not seen.python else None
    found = [part for block in found for part in _parts(block)]
    result = [block for block in found if block.command is not None or block.trimmed()]
    prompted = [block for block in result if block.command and not block.python]
    if prompted and all(block.container for block in prompted):
        for block in prompted:
            block.container = False
    _enter_containers(prompted)
    return _of_one_node(result)


def _of_one_node(found: list[Block]) -> list[Block]:
    """Without commands and outputs of a cluster's other nodes (gpu-01, gpu-02): two machines' facts make one that does not exist.

    The paste is of the node where something failed, else of the one with most commands.
    """
    named = [block for block in found if block.host and not block.container]
    nodes = list(dict.fromkeys(block.host for block in named))
    if len(nodes) < 2 or len({_NUMBER.sub("", node or "") for node in nodes}) > 1:
        return found
    failing = [block.host for block in named if any(tells(line.text) for line in block.output)]
    count = Counter(failing or [block.host for block in named])
    (chosen, _), *_ = count.most_common(1)
    return [block for block in found if block.host in (None, chosen)]


def _parts(block: Block) -> list[Block]:
    """A block, and what comes behind two blank lines or a Markdown heading: nothing says that it is its output as well."""
    parts = [msgspec.structs.replace(block, output=[])]
    blank_before = begun = False
    for line in block.output:
        blank = not line.text.strip()
        if blank_before and begun and (blank or _HEADING.match(line.text)):
            parts.append(Block(container=block.container, host=block.host))
            begun = False
        parts[-1].output.append(line)
        blank_before = blank
        begun |= not blank
    return parts


def _enter_containers(prompted: list[Block]) -> None:
    """Marks what was typed in a container after `docker exec -it NAME bash`, up to `exit` or the first prompt's return."""
    outside: str | None = None
    for i, block in enumerate(prompted):
        command = block.command or ""
        if outside is not None:
            left = _sign(block) == outside and not _exits_later(prompted[i:])
            if left or command.split()[:1] in (["exit"], ["logout"]):
                outside = None
            block.container = block.container or not left
        if outside is None and enters_container(command) and not _failed(block):
            outside = _sign(block)


def _sign(block: Block) -> str:
    """The prompt before the command."""
    line = block.line.text if block.line is not None else ""
    return line[: len(line) - len(block.command or "")].strip() if line.endswith(block.command or "") else line


def _exits_later(blocks: list[Block]) -> bool:
    """Where prompts are all alike (`$`), only an `exit` tells that this is still inside."""
    return any((block.command or "").strip() == "exit" for block in blocks)


def _failed(block: Block) -> bool:
    return any("rror" in line.text for line in block.trimmed()[:3])


def _started(seen: Prompt, line: Line) -> Block:
    host = (seen.host or "").split(".")[0] or None
    return Block(command=seen.command, line=line, python=seen.python, container=seen.container, host=host)


def _continuation(text: str) -> str | None:
    return text if text.rstrip().endswith("\\") else None


def _continue(block: Block, text: str) -> None:
    before = (block.command or "").rstrip().removesuffix("\\")
    block.command = f"{before}{text.strip().removeprefix('> ')}"
