"""Lines that tell of an error where no rule found anything: silence about them would look like health."""

from __future__ import annotations

from collections.abc import Iterable

from gpudoctor.facts import Document, DocumentKind, Evidence
from gpudoctor.knowledge.error_lines import LONGEST, Tells, tells

_MOST = 3
_LINES = 20_000  # of one text, its end


def unexplained(documents: Iterable[Document]) -> list[Evidence]:
    """Up to three lines, those that end a program first, later ones before earlier ones.

    Of pasted texts and programs' logs only: kernel logs and tools' outputs are full of the words.
    """
    found: dict[str, tuple[Tells, int, Evidence]] = {}
    documents = list(documents)
    kernel = {
        line.strip() for one in documents if one.kind is DocumentKind.KERNEL_LOG for line in one.text.split("\n")
    }
    for document in documents:
        if document.kind not in (DocumentKind.PASTE, DocumentKind.LOG):
            continue
        lines = document.text.split("\n")
        for index in range(max(0, len(lines) - _LINES), len(lines)):
            text = lines[index].strip()
            surely = tells(text)
            if surely and text not in kernel:
                found[text] = (surely, index, Evidence(document.name, text[:LONGEST], document.line_number(index)))
    ordered = sorted(found.values(), key=lambda one: (-one[0], -one[1]))
    return [evidence for _, _, evidence in ordered[:_MOST]]
