"""What a user pasted into `gpudoctor explain`: command outputs in it become answers, the rest is searched for messages."""

from __future__ import annotations

import time

import msgspec

from gpudoctor.facts import Document, DocumentKind
from gpudoctor.sources import requests as known
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, Status
from gpudoctor.sources.foreign import RECOGNISERS, Recogniser, bug_report, kernel_log, nccl
from gpudoctor.sources.foreign.answer import Found
from gpudoctor.sources.stored import Answers, StoredSource, filled
from gpudoctor.sources.text import combine, values
from gpudoctor.sources.text.blocks import Block, blocks
from gpudoctor.sources.text.clean import Line, clean, unbroken
from gpudoctor.sources.text.outputs import answers_of

# Kinds that are looked for where no command says what the lines are.
_BY_CONTENT = tuple(kind for kind in RECOGNISERS if kind not in (bug_report, kernel_log))
_LOG_COMMANDS = frozenset({"dmesg", "journalctl", "syslog"})


def open_paste(text: str, name: str = "pasted text") -> StoredSource:
    """A source of what is in the paste. Never raises: any text can be searched for messages."""
    lines = clean(text)
    answers = _answers(lines)
    searched = [*lines, *unbroken(lines)]
    text_of_all = "\n".join(line.text for line in searched)
    documents = [Document(name, DocumentKind.PASTE, text_of_all, [line.number for line in searched])]
    log = _kernel_log_document(answers)
    if log is not None:
        documents.append(log)
    return StoredSource("text", name, answers, now=time.time(), documents=documents)


def _answers(lines: list[Line]) -> Answers:
    answers = Answers()
    found = blocks(lines)
    own = [answers_of(block) for block in found]
    for known_by_command in own:
        combine.merge(answers, known_by_command)
    session = values.python_session(found, own)
    if session is not None:
        answers.commands[session.argv] = session
    for block, known_by_command in zip(found, own, strict=True):
        programs = {argv[0] for argv in known_by_command.commands}
        if block.container or programs & _ELSEWHERE:
            # its shape must not make it this machine's; what a job says of itself holds wherever it ran
            _by_content(answers, block, (nccl,))
            continue
        if not programs & _LOG_COMMANDS:
            _kernel_lines(answers, block)
        if block.command is None or not _is_understood(known_by_command):
            _by_content(answers, block, _BY_CONTENT)
    return answers


def _is_understood(answers: Answers) -> bool:
    """Whether a command's own form told what its output is."""
    return bool(
        answers.files
        or answers.lists
        or answers.stats
        or answers.absent_globs
        or answers.environment
        or any(argv in _CANONICAL or argv[0] in _NAMED for argv in answers.commands)
    )


def _by_content(answers: Answers, block: Block, kinds: tuple[Recogniser, ...]) -> None:
    text, numbers = block.text, block.numbers
    for kind in kinds:
        if kind.recognise(text):
            _add(answers, kind.requests(text), numbers)


_ELSEWHERE = frozenset({"docker-run", "kubectl-exec", "ssh", "srun"})
_NAMED = frozenset({"which", "systemctl", "journalctl", "modinfo", "modprobe"})
_CANONICAL = frozenset(value for name, value in vars(known).items() if name.isupper() and isinstance(value, tuple))


def _kernel_lines(answers: Answers, block: Block) -> None:
    lines = [line for line in block.output if _is_kernel_line(line.text)]
    if not lines:
        return
    text = "\n".join(line.text for line in lines)
    argv = kernel_log.form(text)
    excerpt = CommandAnswer(
        argv=argv, status=Status.OK, stdout=text, truncated=True, line_numbers=[line.number for line in lines]
    )
    combine.merge(answers, filled([excerpt]))


def _is_kernel_line(text: str) -> bool:
    return bool(
        kernel_log.DMESG_LINE.match(text)
        or kernel_log.BARE_LINE.match(text)
        or kernel_log.KERNEL_IN_SYSLOG.match(text)
    )


def _add(answers: Answers, found: Found, numbers: list[int]) -> None:
    for answer in found.values():
        if isinstance(answer, CommandAnswer | FileAnswer):
            inner = answer.line_numbers or range(1, len(numbers) + 1)
            answer = msgspec.structs.replace(
                answer, line_numbers=[numbers[n - 1] for n in inner if n <= len(numbers)]
            )
        answers.add(answer)


def _kernel_log_document(answers: Answers) -> Document | None:
    """The pasted kernel lines as a kernel log, for rules that look for messages only there."""
    for argv in (known.DMESG, known.JOURNAL_KERNEL, known.SYSLOG):
        answer = answers.commands.get(argv)
        if answer is not None and answer.stdout:
            return Document(answer.request, DocumentKind.KERNEL_LOG, answer.stdout, answer.line_numbers, part=True)
    return None
