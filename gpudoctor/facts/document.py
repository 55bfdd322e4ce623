"""Texts in which messages are looked for."""

from enum import StrEnum

import msgspec


class DocumentKind(StrEnum):
    """What a text is, so that a message may be looked for in the right texts only."""

    KERNEL_LOG = "kernel_log"
    COMMAND = "command"
    FILE = "file"
    LOG = "log"  # application, container or job logs
    PASTE = "paste"  # anything a user pasted


class Document(msgspec.Struct, frozen=True):
    """A text in which rules look for messages. `line_numbers` gives each line's number in the original when lines were left out.

    `part`: its lines are another document's as well, and only messages that name its kind are looked for in it.
    """

    name: str
    kind: DocumentKind
    text: str
    line_numbers: list[int] | None = None
    part: bool = False

    def line_number(self, index: int) -> int:
        """The 1-based number, in the original, of the line with this 0-based index."""
        numbers = self.line_numbers
        return numbers[index] if numbers and index < len(numbers) else index + 1
