"""A FUSE mirror of a folder in which one page of one file can't be read.

python -m tests.support.eio_mirror SOURCE MOUNTPOINT PATH_BELOW_SOURCE PAGE        until it is unmounted
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE_SIZE = 4096
START_SECONDS = 60


def is_possible() -> bool:
    """Return whether FUSE file systems can be mounted on this machine."""
    tools = shutil.which("fusermount") is not None and importlib.util.find_spec("fuse") is not None
    return tools and os.access("/dev/fuse", os.R_OK | os.W_OK)


@contextlib.contextmanager
def unreadable_page(source: Path, mountpoint: Path, path: str, page: int) -> Iterator[Path]:
    """Mount the mirror for the block, and yield the mount point."""
    mountpoint.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "tests.support.eio_mirror", str(source), str(mountpoint), path, str(page)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not os.path.ismount(mountpoint):
            assert process.poll() is None, "the FUSE mirror has ended"
            assert time.monotonic() < deadline, "the FUSE mirror does not start"
            time.sleep(0.02)
        yield mountpoint
    finally:
        words = ["fusermount", "-uz", str(mountpoint)]
        try:
            subprocess.run(words, check=False, stderr=subprocess.DEVNULL, timeout=START_SECONDS)
            process.wait(START_SECONDS)
        finally:
            process.kill()


def serve(source: str, mountpoint: str, bad: str, page: int) -> None:
    """Serve the mirror until it is unmounted."""
    from fuse import FUSE, FuseOSError, Operations

    class Mirror(Operations):  # type: ignore[misc]
        """The calls that a reader needs."""

        def getattr(self, path: str, fh: object = None) -> dict[str, Any]:
            try:
                found = os.lstat(source + path)
            except OSError as error:
                raise FuseOSError(error.errno) from None
            names = ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid")
            return {name: getattr(found, name) for name in names}

        def readdir(self, path: str, fh: object) -> list[str]:
            return [".", "..", *(entry.name for entry in Path(source + path).iterdir())]

        def open(self, path: str, flags: int) -> int:
            return os.open(source + path, flags)

        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
            start, stop = page * PAGE_SIZE, (page + 1) * PAGE_SIZE
            if path == f"/{bad}" and offset < stop and offset + size > start:
                if offset >= start:
                    raise FuseOSError(errno.EIO)
                size = start - offset
            return os.pread(fh, size, offset)

        def release(self, path: str, fh: int) -> None:
            os.close(fh)

    FUSE(Mirror(), mountpoint, foreground=True, nothreads=True, ro=True, max_read=PAGE_SIZE)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
