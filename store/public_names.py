"""Import the public names of a package at first use, so that importing the package costs nothing.

    from store.public_names import public_names
    __getattr__, __dir__, __all__ = public_names(__name__, __spec__)

The names are the imports of the `__init__.pyi` beside the package's `__init__.py`, one a line. A type checker reads
the same lines, so a name is listed once. The package's own loader reads the stub, because Spark's executors have the
packages in a zip.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import Protocol, cast

_LINE = re.compile(r"^from (\S+) import (\S+) as \2$", re.MULTILINE)

_GetAttribute = Callable[[str], object]
_ListNames = Callable[[], list[str]]


class _Loader(Protocol):
    def get_data(self, path: str) -> bytes: ...


def public_names(package: str, spec: ModuleSpec) -> tuple[_GetAttribute, _ListNames, list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package from its stub."""
    # Without pathlib: the loader of an archive at "./store.zip" needs paths that begin with "./".
    stub = cast(_Loader, spec.loader).get_data((spec.origin or "").removesuffix(".py") + ".pyi")
    modules = {name: module for module, name in _LINE.findall(stub.decode())}

    def get_attribute(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if modules[name] == package:
            return import_module(f"{package}.{name}")
        # import_module takes ten times as long for a module that is there; functions that import are called often.
        return getattr(sys.modules.get(modules[name]) or import_module(modules[name]), name)

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get_attribute, list_names, sorted(modules)
