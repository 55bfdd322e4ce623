"""`gpudoctor rules`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Gpudoctor
from tests.cli.test_check import site_rules


def test_list(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("rules", "list", "driver")
    assert run.returncode == 0
    assert any("driver/module-not-loaded" in line for line in run.stdout.splitlines())
    assert all(" driver/" in line for line in run.stdout.splitlines())
    listed = json.loads(gpudoctor("rules", "list", "--format", "json").stdout)
    assert len(listed) > 100
    assert {"id", "severity", "title", "action"} <= set(listed[0])


def test_show_a_rule_and_an_own_one(gpudoctor: Gpudoctor, tmp_path: Path) -> None:
    assert "cause 1:" in gpudoctor("rules", "show", "driver/module-not-loaded").stdout
    rules = site_rules(tmp_path, "warning")
    run = gpudoctor("rules", "show", "site/too-few-cpus", "--rules", rules)
    assert run.stdout.startswith("site/too-few-cpus  (warning)\n")


def test_the_examples_of_an_own_rule_file(gpudoctor: Gpudoctor, tmp_path: Path) -> None:
    rules = site_rules(tmp_path, "warning")
    good = gpudoctor("rules", "test", "site/too-few-cpus", "--rules", rules)
    assert good.returncode == 0
    assert "3 example(s) of 1 rule(s), 0 wrong" in good.stderr
    file = rules / "site" / "too-few-cpus.yaml"
    file.write_text(file.read_text().replace("cpu_count_total: 4000", "cpu_count_total: 40"))
    bad = gpudoctor("rules", "test", "site/too-few-cpus", "--rules", rules)
    assert bad.returncode == 2
    assert "site/too-few-cpus: big: fires: expected no, got yes" in bad.stdout


def test_lint_names_the_file(gpudoctor: Gpudoctor, tmp_path: Path) -> None:
    rules = site_rules(tmp_path, "warning")
    file = rules / "site" / "too-few-cpus.yaml"
    file.write_text(file.read_text().replace("run: nproc", "effect: changes, run: sudo rm x"))
    run = gpudoctor("rules", "lint", "site", "--rules", rules)
    assert run.returncode == 2
    assert str(file) in run.stdout


def test_pages_are_written_compared_and_removed(gpudoctor: Gpudoctor, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    assert gpudoctor("rules", "docs", pages, "--check").returncode == 2
    assert gpudoctor("rules", "docs", pages).returncode == 0
    assert "driver/module-not-loaded" in (pages / "README.md").read_text()
    assert gpudoctor("rules", "docs", pages, "--check").returncode == 0
    (pages / "driver.md").write_text("old")
    (pages / "gone.md").write_text("an area that is no more")
    stale = gpudoctor("rules", "docs", pages, "--check")
    assert stale.returncode == 2
    assert "driver.md" in stale.stdout
    assert "gone.md" in stale.stdout
    gpudoctor("rules", "docs", pages)
    assert not (pages / "gone.md").exists()
