"""Watches what a probe asked for and did not get, so that "could not check" is reported instead of looking healthy."""

from __future__ import annotations

from collections.abc import Sequence

from gpudoctor.facts import Document
from gpudoctor.lazy import Lazy
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, ListAnswer, Source, StatAnswer, Status

# Never readable without root, and only a hint: not worth a line in the report.
_EXPECTED_DENIALS = ("/proc/1/", "/sys/firmware/efi/", "/sys/kernel/security/", "/root/", "/var/lib/docker")
_PROBLEM_LIMIT = 6
_REFUSAL = Lazy(r"(?i)operation not permitted|permission denied|insufficient permissions")


class ObservedSource:
    """A Source that passes every request on and remembers those that were denied, timed out or failed."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.kind = source.kind
        self.name = source.name
        self.denied: list[str] = []
        self.timed_out: list[str] = []
        self.failed: list[str] = []
        self.refused = False  # a command failed for want of rights

    def read(self, path: str) -> FileAnswer:
        answer = self._source.read(path)
        self._note(path, answer.status)
        return answer

    def list(self, path: str) -> ListAnswer:
        answer = self._source.list(path)
        self._note(path, answer.status)
        return answer

    def stat(self, path: str) -> StatAnswer:
        answer = self._source.stat(path)
        self._note(path, answer.status)
        return answer

    def run(self, *argv: str, timeout: float = 5.0) -> CommandAnswer:
        answer = self._source.run(*argv, timeout=timeout)
        self._note(answer.request, answer.status)
        if answer.status is Status.FAILED:
            self.refused = self.refused or _REFUSAL.search(answer.text) is not None
            words = (answer.stderr.strip() or answer.stdout.strip()).split("\n", 1)[0][:160]
            self.failed.append(f"{answer.request}: {words or f'exit code {answer.exit_code}'}")
        return answer

    def env(self, name: str) -> str | None:
        return self._source.env(name)

    def environment(self) -> dict[str, str] | None:
        return self._source.environment()

    def now(self) -> float:
        return self._source.now()

    def documents(self) -> Sequence[Document]:
        return self._source.documents()

    def _note(self, request: str, status: Status) -> None:
        if status is Status.TIMEOUT:
            self.timed_out.append(f"{request}: no answer in time")
        elif status is Status.DENIED and not request.startswith(_EXPECTED_DENIALS):
            self.denied.append(f"{request}: permission denied")

    def problems(self, with_failures: bool) -> Sequence[str]:
        """What went wrong, each once; failed commands only where nothing else was learnt."""
        every = self.timed_out + self.denied + (self.failed if with_failures else [])
        unique = list(dict.fromkeys(every))
        if len(unique) > _PROBLEM_LIMIT:
            return [*unique[:_PROBLEM_LIMIT], f"and {len(unique) - _PROBLEM_LIMIT} more"]
        return unique
