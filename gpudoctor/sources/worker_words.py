"""What a failed worker of active tests says, as text that messages are looked for in: its errors' words, not its JSON."""

from __future__ import annotations

from typing import Any

from gpudoctor.facts import Document, DocumentKind
from gpudoctor.sources.answers import CommandAnswer

_LONGEST_LINE = 20_000  # of JSON that is looked at


def worker_document(answer: CommandAnswer) -> Document:
    """One line an error, numbered as in stdout; then stderr, and stdout's lines that are not the worker's own."""
    lines: list[tuple[int, str]] = []
    told = answer.stdout.splitlines()
    for number, line in enumerate(told, 1):
        if not line.startswith("{"):
            lines.append((number, line))
        elif '"error"' in line[:200] and (words := _error_words(line)):
            lines.append((number, words))
    lines += [(len(told) + number, line) for number, line in enumerate(answer.stderr.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line.strip()]
    text = "\n".join(line for _, line in lines)
    return Document(answer.request, DocumentKind.COMMAND, text, [number for number, _ in lines])


def _error_words(line: str) -> str | None:
    """ "cudaErrorSystemNotReady (802): system not yet initialized"."""
    import json

    try:
        error: Any = json.loads(line[:_LONGEST_LINE])
    except (ValueError, RecursionError):
        return None
    if not isinstance(error, dict) or error.get("event") != "error":
        return None
    name, code, message = error.get("name"), error.get("code"), str(error.get("message") or "")
    lead = f"{name} ({code}): " if name and code is not None else f"{name}: " if name else ""
    message = message.removeprefix(f"{name}: ") if name else message
    return " ".join((lead + message).split())
