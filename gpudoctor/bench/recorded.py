"""Which active tests a recording holds."""

from __future__ import annotations

from gpudoctor.bench import plan
from gpudoctor.bench.model import TESTS
from gpudoctor.bench.targets import devices_of, targets_of
from gpudoctor.facts import Facts
from gpudoctor.sources.answers import Source, Status


def tests_in(source: Source, facts: Facts) -> tuple[int, tuple[str, ...]] | None:
    """The level and tests whose workers were recorded; None when no test was begun there."""
    answer = source.run(*plan.DEVICES)
    if answer.status is Status.NOT_RECORDED:
        return None
    targets = targets_of(devices_of(answer.stdout) or [], facts)
    found: dict[int, tuple[str, ...]] = {}
    for level in (2, 3):
        stages = plan.stages(TESTS, targets, level=level)
        found[level] = tuple(
            stage.test
            for stage in stages
            if any(source.run(*job.request).status is not Status.NOT_RECORDED for job in stage.jobs)
        )
    best = max(found, key=lambda level: len(found[level]))
    return best, found[best]
