"""Changed code keeps its writes in one folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
from pathlib import Path
from tests.support.bounds import keep_writes_in
inside, outside = map(Path, sys.argv[1:])
try:
    keep_writes_in(inside)
except PermissionError:
    sys.exit(77)
(inside / "made").touch()
(inside / "kept").unlink()
for change in (outside.unlink, lambda: outside.with_name("new").touch(), lambda: Path("/new").touch()):
    try:
        change()
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's rights bound what is removed")
def test_nothing_outside_of_the_folder_can_be_changed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    (inside / "kept").touch()
    outside.touch()
    argv = [sys.executable, "-c", CODE, str(inside), str(outside)]
    run = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if run.returncode == 77:
        pytest.skip("root may not make a mount namespace here")
    assert (run.returncode, run.stdout.splitlines()) == (0, ["Read-only file system"] * 3), run.stderr
    assert ([path.name for path in inside.iterdir()], outside.exists()) == (["made"], True)
