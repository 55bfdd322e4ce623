"""CEL over facts: three-valued, typed, checked when a rule loads."""

import pytest

from gpudoctor.engine.expressions import Evaluator, ExpressionError, compile_expression, list_conditions, paths
from gpudoctor.facts import DkmsModule, Driver, Facts, Gpu, Host, Kernel, Pci, PciDevice, Xid

FACTS = Facts(
    host=Host(kernel_release="6.8.0-51-generic", os_id="ubuntu"),
    pci=Pci(nvidia_devices=[PciDevice(bdf="0000:3b:00.0")]),
    driver=Driver(
        dkms=[DkmsModule(module="nvidia", version="535.183.01", kernel="6.8.0-49-generic", state="installed")]
    ),
    kernel=Kernel(xids=[Xid(code=79, bdf="0000:3b:00", count=3), Xid(code=79, bdf="0000:5e:00")]),
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("size(pci.nvidia_devices) > 0", True),
        ("host.os_id in ['ubuntu', 'debian']", True),
        ("driver.loaded", None),
        ("driver.loaded || size(pci.nvidia_devices) > 0", True),
        ("driver.loaded && size(pci.nvidia_devices) == 0", False),
        ("driver.loaded && size(pci.nvidia_devices) > 0", None),
        ("driver.dkms.exists(d, d.kernel == host.kernel_release)", False),
        ("driver.dkms.exists(d, d.arch == 'x86_64')", None),
        ("gpus.exists(g, g.lost)", None),
        ("version('535.183.01') >= version('535.54')", True),
        ("version('535.54.03') >= version('535.183')", False),
        ("version('1.10') > version('1.9')", True),
        ("major('535.183.01') == 535", True),
        ("xid_count(79) == 4", True),
        ("xid_count(48) == 0", True),
        ("host.kernel_release.startsWith('6.8')", True),
        ("host.kernel_release.matches('^6\\\\.\\\\d+')", True),
    ],
)
def test_true_false_unknown(expression: str, expected: bool | None) -> None:
    assert Evaluator(FACTS).evaluate(compile_expression(expression)) is expected


def test_whole_numbers_of_double_facts_compare_with_doubles() -> None:
    gpu = Gpu(index=0, power_w=30)  # a whole number, as JSON gives it
    compiled = compile_expression("gpu.power_w > 10.0", "gpu")
    assert Evaluator(Facts(gpus=[gpu])).evaluate(compiled, "gpu", gpu) is True


@pytest.mark.parametrize(
    ("expression", "each", "says"),
    [
        ("driver.loadd", None, "undeclared reference to 'driver.loadd'"),
        ("host.kernel_release > 3", None, "no matching overload"),
        ("gpus.exists(g, g.temprature_c > 3)", None, "Gpu has no fact `temprature_c`"),
        ("gpu.processes.exists(p, p.pidd == 1)", "gpu", "GpuProcess has no fact `pidd`"),
        ("gpu.index == 0", None, "undeclared reference to 'gpu"),
        ("driver.loaded &&", None, "Syntax error"),
    ],
)
def test_a_wrong_expression_is_an_error_when_it_is_compiled(expression: str, each: str | None, says: str) -> None:
    with pytest.raises(ExpressionError, match=says.replace("(", r"\(")):
        compile_expression(expression, each)


def test_paths_and_list_conditions_are_found_outside_strings() -> None:
    expression = "driver.loaded && host.os_id == 'a.b' && driver.dkms.exists(d, (d.state == 'x') && d.arch != 'y')"
    assert paths(expression) == ["driver.loaded", "host.os_id", "driver.dkms", "d.state", "d.arch"]
    assert list(list_conditions(expression)) == [("driver.dkms", "d", "(d.state == 'x') && d.arch != 'y'")]
