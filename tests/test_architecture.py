"""The shape of the code: who may import whom, who may touch the machine, what a start costs."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "gpudoctor"
BASE = {"errors", "lazy", "facts", "report", "knowledge"}
# Part -> what it may import besides itself: cli -> fleet -> render, engine, bench, probes, sources -> report, facts.
MAY_IMPORT: dict[str, set[str]] = {
    "__main__": {"cli"},
    "cli": {"fleet", "render", "engine", "bench", "probes", "sources", "demo", *BASE},
    "fleet": {"render", "engine", "bench", "probes", "sources", *BASE},
    "render": BASE,
    "engine": BASE,
    "bench": {"sources", "workers", *BASE},
    "probes": {"sources", *BASE},
    "sources": BASE,
    "workers": {"knowledge"},
    "demo": set(),
    "knowledge": {"facts", "errors", "lazy"},
    "report": {"facts"},
    "facts": set(),
    "errors": set(),
    "lazy": set(),
}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, part) of everything that a file imports from the package, wherever in the file the import stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "gpudoctor" and len(parts) > 1 and parts[1] != "__version__":
                yield node.lineno, parts[1]


def test_every_part_is_known() -> None:
    assert {part_of(path) for path in modules()} <= set(MAY_IMPORT)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(path)
    wrong = [f"line {line}: {other}" for line, other in imported(path) if other not in MAY_IMPORT[part] | {part}]
    assert not wrong, f"{part} must not import: {', '.join(wrong)}"


_UNDER_AUDIT = """
import sys
from pathlib import Path
from gpudoctor.demo import SCENARIOS, path_of
from gpudoctor.probes.run import run_probes
from gpudoctor.sources import open_paths, open_text

sources = [open_paths([path_of(name)]) for name in SCENARIOS]
sources.append(open_text("$ uname -r\\n6.1.0-13-amd64\\nNVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\\n"))
for source in sources:  # once for the imports and the tables that probes load
    run_probes(source, areas=None, deadline_seconds=60.0, on_progress=None)

FORBIDDEN = {"open", "os.listdir", "os.scandir", "subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.fork",
             "ctypes.dlopen", "socket.connect", "socket.getaddrinfo"}
seen = []
sys.addaudithook(lambda event, args: seen.append((event, str(args)[:100])) if event in FORBIDDEN else None)
crashed = []
for source in sources:
    _, runs = run_probes(source, areas=None, deadline_seconds=60.0, on_progress=None)
    crashed += [(source.name, run.name, run.problems) for run in runs if run.state == "crashed"]
touched = list(seen)
print("touched", touched)
print("crashed", crashed)
sys.exit(bool(touched or crashed))
"""


def test_probes_on_recorded_evidence_touch_nothing_of_the_machine() -> None:
    run = subprocess.run([sys.executable, "-c", _UNDER_AUDIT], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr


def loaded_by(*arguments: str) -> set[str]:
    """Names of the modules that a command has loaded at its end."""
    script = (
        "import sys, json, io, contextlib\n"
        "from gpudoctor.__main__ import main\n"
        f"sys.argv = ['gpudoctor', *{list(arguments)!r}]\n"
        "with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):\n"
        "    main()\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(run.stdout))


def test_version_loads_next_to_nothing() -> None:
    loaded = loaded_by("--version")
    ours = {name for name in loaded if name.startswith("gpudoctor")}
    assert ours == {"gpudoctor", "gpudoctor.__main__"}
    assert not loaded & {"typer", "click", "rich", "msgspec", "yaml", "psutil"}


def test_a_call_without_options_does_not_load_the_parser() -> None:
    assert "typer" not in loaded_by("explain", "nvidia-smi: command not found")
    assert "typer" in loaded_by("explain", "nvidia-smi: command not found", "-v")


def test_help_does_not_load_the_engine() -> None:
    loaded = loaded_by("--help")
    assert not [
        name for name in loaded if name.startswith(("gpudoctor.engine", "gpudoctor.probes", "gpudoctor.sources"))
    ]
    assert not loaded & {"rich", "yaml", "re2", "psutil", "cel_expr_python"}


def test_a_check_loads_only_what_it_needs() -> None:
    healthy = ("check", "--from", str(PACKAGE / "demo" / "healthy"))
    loaded_by(*healthy)  # the first run in a checkout reads the rules' YAML and keeps them checked
    loaded = loaded_by(*healthy)
    assert not loaded & {"rich", "yaml", "jsonschema", "kubernetes", "ClusterShell", "asyncio", "unittest"}


def tracked() -> list[Path]:
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if run.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in run.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


# Written so that this file does not contain what it looks for.
_WORKPLACE = re.compile(
    "/" + r"work/(?:main|shared|venv|\.library)|/tmp/" + r"brief|tool\s" + r"library|sealed" + r"\.bin"
)


def test_nothing_of_a_workplace_is_named() -> None:
    found: list[str] = []
    for path in tracked():
        text = path.read_text(encoding="utf-8", errors="replace")
        for match in _WORKPLACE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{path.relative_to(ROOT)}:{line}: {match[0]}")
    assert not found, found


def test_files_have_one_purpose() -> None:
    long = {str(path.relative_to(ROOT)): n for path in modules() if (n := len(path.read_text().splitlines())) > 450}
    assert not long
