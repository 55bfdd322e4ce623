"""Pasted text to facts and a diagnosis, in one process: what `gpudoctor explain` does, which also guesses."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from gpudoctor.engine.diagnose import Diagnosis, diagnose
from gpudoctor.engine.load import RuleSet, load_rules
from gpudoctor.facts import Document, Facts
from gpudoctor.probes.run import run_probes
from gpudoctor.sources import open_text


@functools.cache
def bundled() -> RuleSet:
    """The bundled rules, loaded once."""
    return load_rules()


def read_text(text: str) -> tuple[Facts, Sequence[Document]]:
    """Facts and documents of a paste."""
    source = open_text(text)
    facts, _ = run_probes(source, areas=None, deadline_seconds=30, on_progress=None)
    return facts, source.documents()


def explain(text: str, *, guessing: bool = False) -> Diagnosis:
    """The diagnosis of a paste."""
    return diagnose(bundled(), *read_text(text), guessing=guessing)
