"""A device as slow as wanted: fdatasync, fsync and msync of this process and its children take a given time at least.

How well a group commit does depends on the device: the faster its sync, the more the hand-over between threads weighs.
A virtual machine's device may sync 40,000 times a second into its host's memory, where an NVMe drive syncs 10,000
times.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
PACE = "PACED_SYNC_NS"


def restart_paced(syncs_per_s: int) -> None:
    """Start this program anew on a device of at most that many syncs a second; nothing when it runs on one."""
    if PACE in os.environ:
        return
    library = Path(tempfile.gettempdir()) / f"paced_device-{os.getuid()}.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, SOURCE, "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), PACE: str(1_000_000_000 // syncs_per_s)}
    os.execve(sys.executable, sys.orig_argv, environment)
