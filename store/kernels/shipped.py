"""The compiled module for workers that get this package as a zip, for a zip can't be loaded from.

It travels beside the zip as a file whose name ends with the version and processor that it is for. Workers of another
kind find none with the ending of their own, and run kernels uncompiled.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

_FILE_NAME = f"rmqctl_kernels{sysconfig.get_config_var('EXT_SUFFIX')}"


def copy_to_ship(compiled: ModuleType, folder: Path) -> Path:
    """Return a copy of the compiled module in `folder`, under the name that workers look for."""
    return Path(shutil.copyfile(str(compiled.__file__), folder / _FILE_NAME))


def load_shipped(name: str) -> ModuleType:
    """Return the compiled module from a folder of the import path; ImportError where none has it."""
    for path in (Path(folder, _FILE_NAME) for folder in sys.path):
        spec = spec_from_file_location(name, path) if path.is_file() else None
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise ImportError(f"no {_FILE_NAME} on the path", name=name)
