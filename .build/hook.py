"""Compiles the kernels when the package is built: into the wheel, or in place for an editable install.

An installed module of the same sources is copied: `pip install '.[test]'` after `pip install .` compiles nothing.

Where they cannot be compiled the package is built without: kernels run uncompiled then, and slowly. A wheel with
compiled kernels has the tag of the systems that they run on, and a CycloneDX list of what is in it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
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
            folder = kernels.KERNELS if in_place else Path(self._folder.name)
            built = kernels.ensure(folder / kernels.FILE_NAME)
        except kernels.BuildFailed as failure:
            self.app.display_warning(f"the kernels stay uncompiled: {failure}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = kernels.system_tag(built, self.build_config.builder.get_best_matching_tag())
        if not in_place:
            build_data["force_include"][str(built)] = f"store/kernels/{built.name}"
            build_data["sbom_files"].append(str(self._list_contents(built)))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if getattr(self, "_folder", None):
            self._folder.cleanup()

    def _list_contents(self, built: Path) -> Path:
        """Write the list of the wheel's parts; what it depends on is in its metadata."""
        name, of_package = self.metadata.core.name, self.metadata.version
        whole = {"type": "application", "bom-ref": name, "name": name, "version": of_package}
        cython = {"type": "library", "bom-ref": "cython", "name": "cython", "version": version("cython")}
        parts = [
            {"type": "file", "bom-ref": "kernels", "name": f"store/kernels/{built.name}"},
            {**cython, "purl": f"pkg:pypi/cython@{cython['version']}"},
        ]
        file = built.with_name(f"{name}.cdx.json")
        document = {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": {**whole, "purl": f"pkg:pypi/{name}@{of_package}"}},
            "components": parts,
            "dependencies": [{"ref": name, "dependsOn": ["kernels"]}, {"ref": "kernels", "dependsOn": ["cython"]}],
        }
        file.write_text(json.dumps(document, indent=2) + "\n")
        return file
