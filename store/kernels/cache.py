"""Where compiled kernels are kept: one folder per user, version of the sources, compiler and processor.

    $XDG_CACHE_HOME or ~/.cache  /  rmqctl  /  kernels-<digest>  /  <kernel>.o

A file is a kernel's object code and behind it its SHA-256, so that a damaged one is noticed and made anew. Files are
written under a private name and renamed, so two processes that compile at once do not disturb each other. A folder that
can't be made or written is replaced by a private temporary one, removed at exit.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

_DIGEST_SIZE = hashlib.sha256().digest_size
_SOURCES = (Path(__file__).parent, Path(__file__).parent.parent / "formats")


def cache_folder(compiler: str, processor: str) -> Path:
    """The folder to use, which exists and can be written."""
    home = user_cache_home()
    if home is None:
        return temporary_folder()
    folder = home / "rmqctl" / f"kernels-{digest(compiler, processor)}"
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


def digest(compiler: str, processor: str) -> str:
    """What the machine code depends on, in 16 hex digits."""
    what = hashlib.sha256()
    for part in (sys.version, compiler, processor, platform.machine()):
        what.update(part.encode() + b"\0")
    for source in sorted(path for folder in _SOURCES for path in folder.glob("*.py")):
        what.update(source.name.encode() + b"\0" + source.read_bytes())
    return what.hexdigest()[:16]


def read_code(folder: Path, name: str) -> bytes | None:
    """A kernel's object code, or None where it is missing or damaged."""
    try:
        data = (folder / f"{name}.o").read_bytes()
    except OSError:
        return None
    code, told = data[:-_DIGEST_SIZE], data[-_DIGEST_SIZE:]
    return code if hashlib.sha256(code).digest() == told else None


def write_code(folder: Path, name: str, code: bytes) -> None:
    """Keeps a kernel's object code. A full disk is no reason to stop: the next process compiles again."""
    made = folder / f".{name}-{os.getpid()}"
    try:
        made.write_bytes(code + hashlib.sha256(code).digest())
        made.rename(folder / f"{name}.o")
    except OSError:
        with contextlib.suppress(OSError):
            made.unlink()


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
