"""Options of the whole test run, the markers, and the fixtures that hand out real parts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.testbed import cuda, nvml, real_parts
from tests.testbed.cuda import FakeCuda
from tests.testbed.nvml import FakeNvml
from tests.testbed.smi import GenuineSmi

REQUIRE_REAL = "GPUDOCTOR_REQUIRE_REAL"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files instead of comparing")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`real("lspci", "dkms")` names the programs a test needs; where one is missing the test skips, or fails in CI."""
    names = tuple(name for marker in item.iter_markers("real") for name in marker.args)
    missing = real_parts.missing(names)
    if missing:
        reason = f"real part not installed: {', '.join(missing)} (.ci/install-real-parts installs it)"
        if os.environ.get(REQUIRE_REAL) == "1":
            pytest.fail(f"{REQUIRE_REAL}=1, but {reason}", pytrace=False)
        pytest.skip(reason)
    if item.get_closest_marker("gpu") and not Path("/proc/driver/nvidia/version").exists():
        pytest.skip("needs an NVIDIA GPU with a loaded driver")


@pytest.fixture(scope="session", autouse=True)
def _no_device_nodes_left() -> Iterator[None]:
    """NVIDIA's own library, run as root without a driver, makes /dev/nvidiactl; it goes again after the tests."""
    before = set(Path("/dev").glob("nvidia*"))
    yield
    if not Path("/proc/driver/nvidia").exists():
        for node in set(Path("/dev").glob("nvidia*")) - before:
            with contextlib.suppress(OSError):
                node.unlink()


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> FakeNvml:
    """The fake NVML library: `fake_nvml.scenario({...})` is the environment for a program that should see it."""
    return nvml.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def fake_cuda(tmp_path_factory: pytest.TempPathFactory) -> FakeCuda:
    """The fake CUDA driver library, used like `fake_nvml`."""
    return cuda.build(tmp_path_factory.mktemp("cuda"))


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(g, marks=pytest.mark.real(f"nvidia-smi-{g}"), id=f"smi{g}") for g in real_parts.SMI_GENERATIONS
    ],
)
def genuine_smi(request: pytest.FixtureRequest, fake_nvml: FakeNvml) -> GenuineSmi:
    """Each genuine nvidia-smi generation in turn, on the fake NVML."""
    return GenuineSmi(request.param, fake_nvml)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares text with a golden file, or writes the file with --update-golden."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{path.name} differs: pytest --update-golden rewrites it"

    return compare
