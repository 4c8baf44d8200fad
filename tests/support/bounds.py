"""Keep the writes of this process in one folder: changed code may remove what it likes.

A mount namespace of its own has every file system read-only but the folder's; other processes see nothing of it.

Source: unshare(2), mount(2).
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

CLONE_NEWNS = 0x20000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
OF_DISKS = {"ext2", "ext3", "ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "f2fs"}


def keep_writes_in(folder: Path) -> None:
    """Make all but `folder` read-only for this process and its children.

    Raise PermissionError without the right to mount.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def call(result: int, doing: str) -> None:
        if result:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), doing)

    def mount(source: str | None, target: str, flags: int) -> None:
        of = source.encode() if source is not None else None
        call(libc.mount(of, target.encode(), None, ctypes.c_ulong(flags), None), target)

    points = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()]
    call(libc.unshare(CLONE_NEWNS), "unshare")
    mount(None, "/", MS_REC | MS_PRIVATE)
    mount(str(folder), str(folder), MS_BIND)
    for target, kind in points:
        # A blank in a name is \040 there; such a mount stays as it is.
        if kind in OF_DISKS and "\\" not in target:
            mount(None, target, MS_REMOUNT | MS_BIND | MS_RDONLY)
    # What stood in the folder before is below the mount now.
    os.chdir(Path.cwd())
