"""Turns one file's content into answers and texts to search."""

from __future__ import annotations

from typing import Any

import msgspec

from gpudoctor.facts import Document, DocumentKind
from gpudoctor.sources import content
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, Status
from gpudoctor.sources.content import Content
from gpudoctor.sources.foreign import RECOGNISERS, Recogniser, bug_report, kernel_log, nvidia_smi
from gpudoctor.sources.foreign.answer import Found, Request
from gpudoctor.sources.stored import Answers
from gpudoctor.sources.thin import thin

WHOLE_BYTES = 8 << 20  # larger logs are thinned
STRUCTURED_BYTES = 48 << 20  # XML, JSON and reports are of use only whole
_LOG_KINDS = (DocumentKind.KERNEL_LOG, DocumentKind.LOG)


class Reading(msgspec.Struct, kw_only=True):
    """What one file says; `problem` where it is not understood, or not wholly readable."""

    name: str
    answers: Answers = msgspec.field(default_factory=Answers)
    documents: list[Document] = []
    problem: str | None = None


def read_content(opened: Content, interesting: Any = None, request: Request | None = None) -> Reading:
    """Recognises a file by its content. `request` is what it answers where its place says so (in a sosreport)."""
    reading = Reading(name=opened.name)
    if not opened.head:
        reading.problem = opened.problem or "empty"
        return reading
    encoding = content.encoding(opened.head)
    if encoding is None:
        reading.problem = "binary data"
        return reading
    head = content.decode(opened.head, encoding)
    kind = next((kind for kind in RECOGNISERS if kind.recognise(head)), None)
    data, whole = opened.upto(WHOLE_BYTES)
    if not whole and kind is not None and kind.KIND not in _LOG_KINDS:
        data, whole = opened.upto(STRUCTURED_BYTES)
        if not whole:
            reading.problem = f"only the first {STRUCTURED_BYTES >> 20} MiB were read"
    elif not whole:
        _read_huge(opened, interesting, kind, reading, request)
        return reading
    _read_text(content.decode(data, encoding), kind, reading, request)
    if opened.problem is not None:
        reading.problem = opened.problem
    return reading


def _read_huge(
    opened: Content, interesting: Any, kind: Recogniser | None, reading: Reading, request: Request | None
) -> None:
    """A log too large to keep: only the lines that matter, with their numbers."""
    head = content.decode(opened.head, "utf-8")
    text, numbers, dropped = thin(opened.chunks(), interesting)
    log = kernel_log.recognise(head)
    if isinstance(request, str):
        _add_file(reading, request, text, numbers)
    elif log:
        argv = request or kernel_log.form(head)
        answer = CommandAnswer(argv=argv, status=Status.OK, stdout=text, line_numbers=numbers, truncated=True)
        reading.answers.add(answer)
    elif kind is not None:
        _add(reading.answers, kind.requests(text), numbers)
    reading.documents.append(
        Document(opened.name, DocumentKind.KERNEL_LOG if log else DocumentKind.LOG, text, numbers)
    )
    if dropped:
        reading.problem = f"{dropped} of the matching lines were left out"


def _read_text(text: str, kind: Recogniser | None, reading: Reading, request: Request | None) -> None:
    if isinstance(request, str):
        _add_file(reading, request, text, None)
        reading.documents.append(Document(reading.name, DocumentKind.FILE, text))
        return
    if request is not None:
        failed = nvidia_smi.is_error(text) and request[0] == "nvidia-smi"
        status = Status.FAILED if failed else Status.OK
        reading.answers.add(CommandAnswer(argv=request, status=status, stdout=text))
    if kind is bug_report:
        found = bug_report.requests(text)
        _add(reading.answers, found, None)
        reading.documents += _report_documents(reading.name, found)
        return
    if kind is not None and request is None:
        _add(reading.answers, kind.requests(text), None)
    if request is None and not (kind is not None and kind.KIND in _LOG_KINDS):
        # A terminal's transcript, or notes with outputs in them: what a paste is.
        from gpudoctor.sources.text import answers_of_text

        reading.answers.merge(answers_of_text(text))
    if kind is None and request is None and not reading.answers:
        reading.problem = "not recognised"
    reading.documents.append(Document(reading.name, DocumentKind.FILE if kind is None else kind.KIND, text))


def _report_documents(name: str, found: Found) -> list[Document]:
    """The present's texts of a bug report; logs of earlier boots would report what is long mended."""
    documents = []
    for request, answer in found.items():
        if bug_report.is_history(request) or not isinstance(answer, CommandAnswer) or not answer.stdout:
            continue
        kernel = answer.argv[0] in ("dmesg", "journalctl")
        kind = DocumentKind.KERNEL_LOG if kernel else DocumentKind.COMMAND
        if kernel or answer.status is not Status.OK or answer.argv[0] == "systemctl":
            documents.append(Document(f"{name}: {answer.request}", kind, answer.stdout, answer.line_numbers))
    return documents


def _add_file(reading: Reading, path: str, text: str, numbers: list[int] | None) -> None:
    answer = FileAnswer(path=path, status=Status.OK, text=text, truncated=numbers is not None, line_numbers=numbers)
    reading.answers.add(answer)


def _add(answers: Answers, found: Found, numbers: list[int] | None) -> None:
    """Adds answers; `numbers` maps the lines of a thinned text to the original's."""
    for answer in found.values():
        if numbers is not None and isinstance(answer, CommandAnswer | FileAnswer):
            inner = answer.line_numbers or range(1, len(numbers) + 1)
            mapped = [numbers[n - 1] for n in inner if n <= len(numbers)]
            answer = msgspec.structs.replace(answer, line_numbers=mapped, truncated=True)
        answers.add(answer)
