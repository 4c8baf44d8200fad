"""The text of `--version`, with a line if the kernels run uncompiled."""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

NO_EXTENSIONS = "RMQCTL_NO_EXTENSIONS"
UNCOMPILED = (
    "kernels run uncompiled, some hundred times slower: compiling them failed when rmqctl was installed; "
    "install a C compiler or the package ziglang, and Python's headers, then install rmqctl again"
)
SWITCHED_OFF = f"kernels run uncompiled: {NO_EXTENSIONS} is set"


def version_text() -> str:
    from store import __version__

    reason = uncompiled_reason()
    return f"rmqctl {__version__}" + (f"\n{reason}" if reason else "")


def uncompiled_reason() -> str | None:
    """Return the reason that kernels run uncompiled, without loading them; None if they are compiled."""
    if os.environ.get(NO_EXTENSIONS, "") not in ("", "0"):
        return SWITCHED_OFF
    package = find_spec("store")
    folder = Path(package.origin or "").parent if package is not None else Path()
    is_there = any((folder / "kernels" / f"compiled{suffix}").is_file() for suffix in EXTENSION_SUFFIXES)
    return None if is_there else UNCOMPILED
