"""Writes the page of the public names: python .build/api_page.py FOLDER.

pdoc looks for a package's names in its dictionary, so the names that are imported at their use are put there before.
"""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module
from pathlib import Path

import pdoc

import store


def main(folder: Path) -> None:
    packages = [found.name for found in pkgutil.walk_packages(store.__path__, "store.") if found.ispkg]
    for package in map(import_module, ["store", *packages]):
        for name in getattr(package, "__all__", ()):
            setattr(package, name, getattr(package, name))
    pdoc.pdoc("store", output_directory=folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
