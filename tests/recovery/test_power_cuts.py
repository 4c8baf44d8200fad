"""What was promised survives a power cut, an error and a kill at any call; a slice of the long runs of tests/README."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from store.disk.filesystem import Descriptor, Filesystem
from tests.recovery import power_cuts
from tests.recovery.nth_call import FAILURES, runs
from tests.support.simulated_disk import SimulatedDisk


def test_nothing_promised_is_lost_by_a_power_cut(tmp_path: Path) -> None:
    done = Counter(power_cuts.power_cuts(tmp_path, 70, seed=20261121))
    assert done.total() == 70


class ForgetfulDisk(SimulatedDisk):
    """A disk that reports a sync and does none."""

    def after(self, name: str, *rest: object) -> None:
        if name not in ("fdatasync", "fsync_folder"):
            super().after(name, *rest)  # type: ignore[arg-type]


def test_a_disk_that_does_not_sync_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power_cuts, "SimulatedDisk", ForgetfulDisk)
    with pytest.raises(AssertionError, match="run seed"):
        list(power_cuts.power_cuts(tmp_path, 200, seed=1))


@pytest.mark.parametrize("failure", FAILURES)
def test_nothing_promised_is_lost_by_a_failing_call(failure: str, tmp_path: Path) -> None:
    done = Counter(name for name, _, _ in runs(tmp_path, list(power_cuts.WORKS), [failure], every=37))
    assert set(done) == set(power_cuts.WORKS)


class RecordingFilesystem(Filesystem):
    """The order of the calls that make something durable, and of renames and removals."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[tuple[str, str]] = []

    def _note(self, name: str, path: Path) -> None:
        self.calls.append((name, str(path.relative_to(self.root)) if path.is_relative_to(self.root) else ".."))

    def fdatasync(self, descriptor: Descriptor) -> None:
        super().fdatasync(descriptor)
        self._note("fdatasync", descriptor.path)

    def fsync_folder(self, folder: Path) -> None:
        super().fsync_folder(folder)
        self._note("fsync_folder", folder)

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._note("rename", target)


def test_what_recover_built_is_durable_before_the_abort_marker_goes(tmp_path: Path) -> None:
    root = tmp_path / "store"
    work = power_cuts.Work(root, Filesystem(), power_cuts.Promises(), power_cuts.random.Random(1))
    work.put(20, "SYNC_FLUSH")
    for name in ("consumequeue", "index"):
        Filesystem().remove_tree(root / name)
    work.disk = fs = RecordingFilesystem(root)
    work.recover()
    marker = next(at for at, call in enumerate(fs.calls) if call[0] == "rename" and call[1].endswith("-abort"))
    before = fs.calls[:marker]
    for queue in (root / "consumequeue" / "T").iterdir():
        folder = str(queue.relative_to(root))
        renamed = max(at for at, call in enumerate(before) if call[0] == "rename" and call[1].startswith(folder))
        assert ("fsync_folder", folder) in before[renamed:]
    for folder in ("consumequeue/T", "consumequeue", "index", "."):
        assert ("fsync_folder", folder) in before
    assert ("fsync_folder", ".") in fs.calls[marker:]
