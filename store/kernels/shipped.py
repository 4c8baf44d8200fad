"""The compiled module for workers with this package as a zip: no zip can hold extension modules.

It is sent beside the zip, as a file with its version of Python and processor in its suffix. Other workers find no file
with their own suffix, and run kernels uncompiled.
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
    """Copy the compiled module to `folder`, under the name that workers search; return the copy."""
    return Path(shutil.copyfile(str(compiled.__file__), folder / _FILE_NAME))


def load_shipped(name: str) -> ModuleType:
    """Return the compiled module from a folder of the import path; raise ImportError without one."""
    for path in (Path(folder, _FILE_NAME) for folder in sys.path):
        spec = spec_from_file_location(name, path) if path.is_file() else None
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise ImportError(f"no {_FILE_NAME} on the path", name=name)
