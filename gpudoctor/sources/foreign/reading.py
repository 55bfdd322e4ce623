"""Turns one file's content into answers and texts to search."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from gpudoctor.facts import Document, DocumentKind
from gpudoctor.sources import content
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, Status
from gpudoctor.sources.content import Content
from gpudoctor.sources.foreign import RECOGNISERS, Recogniser, bug_report, kernel_log, nvidia_smi
from gpudoctor.sources.foreign.answer import Found, Request
from gpudoctor.sources.stored import Answers

WHOLE_BYTES = 8 << 20  # larger logs are thinned
STRUCTURED_BYTES = 48 << 20  # XML, JSON and reports are of use only whole
UNKNOWN_BYTES = 1 << 20
TRANSCRIPT_BYTES = 128 << 10  # a larger file of a known kind is no terminal transcript
_LOG_KINDS = (DocumentKind.KERNEL_LOG, DocumentKind.LOG)


class Reading(msgspec.Struct, kw_only=True):
    """What one file says; `problem` where it is not understood, or not wholly readable."""

    name: str
    answers: Answers = msgspec.field(default_factory=Answers)
    documents: list[Document] = []
    problem: str | None = None


def read_content(
    opened: Content, interesting: Collection[bytes] | None = None, request: Request | None = None
) -> Reading:
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
    data, whole = opened.upto(WHOLE_BYTES)
    kind = _kind(head, may_be_transcript=request is None and len(data) < TRANSCRIPT_BYTES)
    if not whole and kind is not None and kind.KIND not in _LOG_KINDS:
        data, whole = opened.upto(STRUCTURED_BYTES)
        if not whole:
            reading.problem = f"only the first {STRUCTURED_BYTES >> 20} MiB were read"
    elif not whole:
        _read_huge(opened, encoding, interesting, kind, reading, request)
        return reading
    _read_text(content.decode(data, encoding), kind, reading, request)
    if opened.problem is not None:
        reading.problem = opened.problem
    return reading


def _kind(head: str, *, may_be_transcript: bool) -> Recogniser | None:
    """The kind of file. A terminal's transcript that is mostly `dmesg` is no log: its other commands' outputs count."""
    transcript = may_be_transcript and _has_commands(head)
    kinds = (kind for kind in RECOGNISERS if kind is not kernel_log or not transcript)
    return next((kind for kind in kinds if kind.recognise(head)), None)


def _has_commands(text: str) -> bool:
    """Whether a line is a prompt with a command."""
    from gpudoctor.sources.text.prompts import prompt

    return any((found := prompt(line)) is not None and found.command for line in text.split("\n"))


def _read_huge(
    opened: Content,
    encoding: str,
    interesting: Collection[bytes] | None,
    kind: Recogniser | None,
    reading: Reading,
    request: Request | None,
) -> None:
    """A log too large to keep: only the lines that matter, with their numbers."""
    from gpudoctor.sources.thin import thin

    head = content.decode(opened.head, encoding)
    thinned = thin(content.as_utf8(opened.chunks(), encoding), interesting)
    text, numbers = thinned.text, thinned.numbers
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
    left_out = [f"{thinned.dropped} more lines that match were left out"] if thinned.dropped else []
    left_out += [f"lines with only {', '.join(thinned.common)} were left out"] if thinned.common else []
    if left_out or opened.problem:
        reading.problem = "; ".join([*([opened.problem] if opened.problem else []), *left_out])


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
    transcript = request is None and _may_be_transcript(text, kind)
    if transcript:
        # A terminal's transcript, or notes with outputs in them: what a paste is.
        from gpudoctor.sources.text import open_paste

        pasted = open_paste(text, reading.name)
        reading.answers.merge(pasted.answers)
        if kind is None:
            reading.documents += [_as_log(document) for document in pasted.documents()]
    if kind is None and request is None and not reading.answers:
        reading.problem = "not recognised; only searched for messages"
    if kind is not None or not transcript:
        reading.documents.append(Document(reading.name, DocumentKind.FILE if kind is None else kind.KIND, text))


def _as_log(document: Document) -> Document:
    """A file's text may be a log, whatever else is in it: messages of all kinds are looked for."""
    if document.kind is DocumentKind.PASTE:
        return Document(document.name, DocumentKind.LOG, document.text, document.line_numbers)
    return document


def _may_be_transcript(text: str, kind: Recogniser | None) -> bool:
    if text.lstrip()[:1] in ("<", "{"):
        return False
    if kind is None:
        return len(text) < UNKNOWN_BYTES
    return kind.KIND not in _LOG_KINDS and len(text) < TRANSCRIPT_BYTES


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
