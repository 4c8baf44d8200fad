"""Compiles the kernels when the package is built: into the wheel, or in place for an editable install.

Where they cannot be compiled the package is built without: kernels run uncompiled then, and slowly.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
import kernels


class KernelsHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return kernels.requirements() if self.target_name == "wheel" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        in_place = version == "editable"
        self._folder = None if in_place else tempfile.TemporaryDirectory(prefix="rmqctl-wheel-")
        try:
            built = kernels.build(kernels.KERNELS if in_place else Path(self._folder.name))
        except kernels.BuildFailed as failure:
            self.app.display_warning(f"the kernels stay uncompiled: {failure}")
            return
        build_data["pure_python"], build_data["infer_tag"] = False, True
        if not in_place:
            build_data["force_include"][str(built)] = f"store/kernels/{built.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if getattr(self, "_folder", None):
            self._folder.cleanup()
