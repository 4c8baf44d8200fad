"""Where compiled kernels are kept: one folder per user, version of the sources, compiler and processor.

    $XDG_CACHE_HOME or ~/.cache  /  rmqctl  /  kernels-<digest>  /  <kernel>.o

A file is a kernel's object code and behind it its SHA-256, so that a damaged one is noticed and made anew. Files are
written under a private name and renamed, so two processes that compile at once do not disturb each other.

What lies there is run. So it is read only where nobody else may have put it: see is_trusted. Whether the folder can be
written does not matter to reading; where it can't, or there is none to trust, each process compiles what is missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
from pathlib import Path

_DIGEST_SIZE = hashlib.sha256().digest_size
_SOURCES = (Path(__file__).parent, Path(__file__).parent.parent / "formats")


def cache_folder(compiler: str, processor: str) -> Path | None:
    """The folder to read from and to keep code in, made if need be; None where none can be trusted."""
    home = user_cache_home()
    if home is None:
        return None
    folder = home / "rmqctl" / f"kernels-{digest(compiler, processor)}"
    with contextlib.suppress(OSError):
        # One by one: the mode is given to the last folder alone.
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder if is_trusted(folder.parent) and is_trusted(folder) else None


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


def read_code(folder: Path | None, name: str) -> bytes | None:
    """A kernel's object code, or None where it is missing or damaged, or there is no folder."""
    if folder is None:
        return None
    try:
        data = (folder / f"{name}.o").read_bytes()
    except OSError:
        return None
    code, told = data[:-_DIGEST_SIZE], data[-_DIGEST_SIZE:]
    return code if hashlib.sha256(code).digest() == told else None


def write_code(folder: Path | None, name: str, code: bytes) -> None:
    """Keeps a kernel's object code where it can. A full disk is no reason to stop: the next process compiles again."""
    if folder is None:
        return
    made = folder / f".{name}-{os.getpid()}"
    try:
        made.write_bytes(code + hashlib.sha256(code).digest())
        made.rename(folder / f"{name}.o")
    except OSError:
        with contextlib.suppress(OSError):
            made.unlink()


def is_trusted(folder: Path) -> bool:
    """Whether only we, or root, can have put anything into the folder.

    Root may, because whoever is root can change this program as well.
    """
    try:
        found = folder.stat()
    except OSError:
        return False
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & 0o022
