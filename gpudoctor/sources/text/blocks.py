"""Splits plain lines into blocks: a command with its output, or lines that no prompt precedes."""

from __future__ import annotations

import msgspec

from gpudoctor.sources.text.clean import Line
from gpudoctor.sources.text.prompts import Prompt, prompt, python_more


class Block(msgspec.Struct, kw_only=True):
    """`command` is None for lines without a prompt before them."""

    command: str | None = None
    line: Line | None = None  # the prompt's line
    python: bool = False
    container: bool = False  # the prompt is inside a container
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
    result = [block for block in found if block.command is not None or block.trimmed()]
    prompted = [block for block in result if block.command and not block.python]
    if prompted and all(block.container for block in prompted):
        for block in prompted:
            block.container = False
    return result


def _started(seen: Prompt, line: Line) -> Block:
    return Block(command=seen.command, line=line, python=seen.python, container=seen.container)


def _continuation(text: str) -> str | None:
    return text if text.rstrip().endswith("\\") else None


def _continue(block: Block, text: str) -> None:
    before = (block.command or "").rstrip().removesuffix("\\")
    block.command = f"{before}{text.strip().removeprefix('> ')}"
