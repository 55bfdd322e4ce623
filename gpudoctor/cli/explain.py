"""`gpudoctor explain`: an error text or a log -> what it means and what to do; a rule's id -> its page."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpudoctor.cli import exit_codes
from gpudoctor.lazy import Lazy

if TYPE_CHECKING:
    from gpudoctor.cli import options
    from gpudoctor.cli.reporting import Reporting
    from gpudoctor.engine.load import RuleSet
    from gpudoctor.sources import ActiveSource

_RULE_ID = Lazy(r"[a-z0-9-]+/[a-z0-9-]+")
_LIKE_A_FILE = Lazy(r"\S*/\S*|\S+\.(?:log|txt|gz|xz|zip|tgz|tar|xml|json|ya?ml|out|err)", re.IGNORECASE)
_PASTE_BYTES = 4 * 1024 * 1024  # a larger input goes through a file, where huge logs are thinned
_BINARY = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"PK\x03\x04", b"\x28\xb5\x2f\xfd")
_USAGE = """\
explain takes an error text, a log file, or standard input:

  gpudoctor explain "CUDA error: no kernel image is available for execution"
  gpudoctor explain /var/log/train.log
  dmesg | gpudoctor explain -
  gpudoctor explain driver/module-not-loaded        a rule's page
"""


def explain(
    texts: options.Texts = None,
    paths: options.From = None,
    rules: options.Rules = None,
    format: options.Format = "text",
    output: options.Output = None,
    fail_on: options.FailOn = "error",
    allow_unknown: options.AllowUnknown = False,
    deadline: options.Deadline = 30.0,
    verbose: options.Verbose = False,
) -> int:
    """Say what a pasted error, a log or a ticket's attachment means, and what to do. Exit codes are those of check."""
    from gpudoctor.cli.output import write
    from gpudoctor.cli.pipeline import Request
    from gpudoctor.cli.reporting import report_on, reporting
    from gpudoctor.engine.load import load_rules

    wanted = reporting(format, output, fail_on=fail_on, allow_unknown=allow_unknown, verbose=verbose)
    if not texts and not paths and sys.stdin.isatty():
        print(_USAGE, end="", file=sys.stderr)
        return exit_codes.UNUSABLE
    ruleset = load_rules(rules or [])
    page = _rule_page(texts, ruleset, wanted)
    if page is not None:
        write(page, output)
        return exit_codes.PASSED
    source = _source(texts or [], paths or [], ruleset)
    return report_on(source, ruleset, Request(deadline_seconds=deadline, explaining=True), wanted)


def _rule_page(texts: list[str] | None, ruleset: RuleSet, reporting: Reporting) -> str | None:
    """The page, when the text is a rule's id."""
    if not texts or len(texts) != 1 or texts[0] not in ruleset.loaded:
        return None
    from gpudoctor.cli.output import width
    from gpudoctor.cli.rule_page import as_json, as_text

    rule = ruleset.loaded[texts[0]].rule
    terminal = reporting.output is None and sys.stdout.isatty()
    return as_json(rule) if reporting.format == "json" else as_text(rule, width(terminal))


def _source(texts: list[str], paths: list[Path], ruleset: RuleSet) -> ActiveSource:
    from gpudoctor.cli.pipeline import open_evidence
    from gpudoctor.errors import GpudoctorError
    from gpudoctor.sources import open_text

    if paths and texts:
        raise GpudoctorError("give a text or --from, not both")
    if paths:
        return open_evidence(paths, ruleset)
    if texts in ([], ["-"]):
        return _from_stdin(ruleset)
    files = [Path(text) for text in texts if _is_path(text)]
    if len(files) == len(texts):
        return open_evidence(files, ruleset)
    if len(texts) == 1 and _RULE_ID.fullmatch(texts[0]) and texts[0].split("/")[0] in _areas(ruleset):
        raise GpudoctorError(f"no rule {texts[0]}", f"`gpudoctor rules list {texts[0].split('/')[0]}` lists them")
    if len(texts) == 1 and _LIKE_A_FILE.fullmatch(texts[0]):
        raise GpudoctorError(f"no such file: {texts[0]}", "an error text goes in quotes")
    return open_text(" ".join(texts))


def _areas(ruleset: RuleSet) -> set[str]:
    return {rule_id.split("/")[0] for rule_id in ruleset.loaded}


def _is_path(text: str) -> bool:
    try:
        return "\n" not in text and Path(text).exists()
    except (OSError, ValueError):  # too long for a name, or not a name at all
        return False


def _from_stdin(ruleset: RuleSet) -> ActiveSource:
    """A paste as text; what is packed or huge goes through a file, as if it had been given by name."""
    from gpudoctor.errors import GpudoctorError
    from gpudoctor.sources import open_text

    data = sys.stdin.buffer.read(_PASTE_BYTES + 1)
    if not data.strip():
        raise GpudoctorError("nothing came on standard input", "pipe a log into it, or give the text in quotes")
    if len(data) <= _PASTE_BYTES and not data.startswith(_BINARY) and b"\0" not in data[:4096]:
        return open_text(data.decode("utf-8", "replace"))
    return _through_file(data, ruleset)


def _through_file(start: bytes, ruleset: RuleSet) -> ActiveSource:
    import shutil
    import tempfile

    from gpudoctor.cli.pipeline import open_evidence

    with tempfile.TemporaryDirectory(prefix="gpudoctor-") as directory:
        path = Path(directory) / "standard-input"
        with path.open("wb") as file:
            file.write(start)
            shutil.copyfileobj(sys.stdin.buffer, file)
        return open_evidence([path], ruleset)
