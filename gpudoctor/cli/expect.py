"""`--expect FILE`: what the operator says this machine should have, from a small YAML mapping."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from gpudoctor.errors import GpudoctorError
from gpudoctor.facts import Expectation

_MOST_BYTES = 64 * 1024
_YES_NO = {"yes": "true", "on": "true", "no": "false", "off": "false"}


def read_expectation(path: Path) -> Expectation:
    """Values by field name. Raises GpudoctorError with every problem as `file:line: what`."""
    import yaml

    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise GpudoctorError(f"{path}: larger than 64 KiB, not an expectation")
        node = yaml.compose(data.decode("utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise GpudoctorError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise GpudoctorError(f"{path}: not UTF-8 text") from error
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise GpudoctorError(f"{where}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(node, yaml.MappingNode):
        raise GpudoctorError(f"{path}: an expectation is a mapping", "for example `gpu_count: 8`")
    values: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in node.value:
        where = f"{path}:{key.start_mark.line + 1}"
        try:
            _take(values, key.value, value)
        except ValueError as error:
            problems.append(f"{where}: {error}")
    if problems:
        known = ", ".join(_types())
        raise GpudoctorError(f"{len(problems)} problem(s) in {path}", f"known: {known}", tuple(problems))
    return Expectation(**values)


def _types() -> dict[str, Any]:
    return {name: kind for name, kind in get_type_hints(Expectation).items() if name != "evidence"}


def _take(values: dict[str, Any], name: object, node: Any) -> None:
    """One entry, converted by the field's type: `12.10` stays a version. Raises ValueError in words."""
    import yaml

    types = _types()
    if not isinstance(name, str) or name not in types:
        raise ValueError(f"`{name}` is not known")
    if name in values:
        raise ValueError(f"`{name}` occurs twice")
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError(f"`{name}` takes one value")
    text: str = node.value
    if bool | None == types[name]:
        text = _YES_NO.get(text.lower(), text.lower())
    try:
        values[name] = msgspec.convert(text, types[name], strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"`{name}: {node.value}`: {error}") from error
