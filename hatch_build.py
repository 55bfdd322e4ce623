"""Puts the checked and compiled rules into the wheel, so that an installed gpudoctor starts without reading YAML."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PreparedRules(BuildHookInterface[Any]):
    """Runs when a wheel is built. A broken rule stops the build."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Check the rules and add them to the wheel (an editable install reads the YAML itself)."""
        if self.target_name != "wheel" or version == "editable":
            return
        sys.path.insert(0, self.root)
        from gpudoctor.engine.load import PREPARED, check_files, encoded, rule_files

        rules = Path(self.root) / "rules"
        loaded, problems = check_files(rules, map(Path, rule_files(rules)))
        if problems:
            raise SystemExit("\n".join(map(str, problems)))
        out = Path(tempfile.mkdtemp(prefix="gpudoctor-rules-")) / PREPARED
        out.write_bytes(encoded(loaded, rules))
        build_data["force_include"][str(out)] = f"gpudoctor/_rules/{PREPARED}"
        self._made = out.parent

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made for the wheel."""
        if made := getattr(self, "_made", None):
            shutil.rmtree(made, ignore_errors=True)
