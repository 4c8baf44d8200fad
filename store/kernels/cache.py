"""Where compiled kernels are kept: one folder per user, version of the sources, Python, numba and processor.

    $XDG_CACHE_HOME or ~/.cache  /  rmqctl  /  kernels-<digest>

numba looks only at the file of the outermost function to see whether its cache is stale, so the digest covers every
source a kernel is made of. numba writes its files under a private name and renames them, so two processes that
compile at once do not disturb each other. A folder that can't be made or written is replaced by a private temporary
one, removed at exit.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

_SOURCES = (Path(__file__).parent, Path(__file__).parent.parent / "formats")


def cache_folder(numba_version: str, processor: str) -> Path:
    """The folder to use, which exists and can be written."""
    home = user_cache_home()
    if home is None:
        return temporary_folder()
    folder = home / "rmqctl" / f"kernels-{digest(numba_version, processor)}"
    return folder if is_usable(folder) else temporary_folder()


def user_cache_home() -> Path | None:
    """XDG_CACHE_HOME if it is an absolute path, as the specification asks; else ~/.cache; None without a home."""
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if configured.is_absolute():
        return configured
    try:
        return Path("~/.cache").expanduser()
    except RuntimeError:
        return None


def digest(numba_version: str, processor: str) -> str:
    """What the machine code depends on, in 16 hex digits."""
    what = hashlib.sha256()
    for part in (sys.version, numba_version, processor, platform.machine()):
        what.update(part.encode() + b"\0")
    for source in sorted(path for folder in _SOURCES for path in folder.glob("*.py")):
        what.update(source.name.encode() + b"\0" + source.read_bytes())
    return what.hexdigest()[:16]


def is_usable(folder: Path) -> bool:
    """Whether the folder is ours alone and files can be made in it; makes it if need be.

    What lies in it is run, so nobody else may have put it there.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if found.st_uid != os.getuid() or found.st_mode & 0o022:
            return False
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def temporary_folder() -> Path:
    """A folder of this process alone."""
    folder = Path(tempfile.mkdtemp(prefix="rmqctl-kernels-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
