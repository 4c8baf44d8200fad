"""backup create: each byte once, beside a writer, and nothing that was finished is lost."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from store import open_store
from store.errors import BadRequest, StoreIOError, StoreLocked
from store.files.filesystem import Descriptor, Filesystem
from store.files.lock import StoreLock
from store.formats.backup_manifest import Manifest, backup_id, time_of_id
from store.formats.zstd_frames import FRAME_BYTES
from tests.support.bad_sectors import BadSectors
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.stores import PATIENT, SMALL, Clock, make_store, text_message
from tests.support.threads import eventually
from tests.verbs.backup.backups import back_up, faults_in, fingerprint, messages_of, put_more, restore, stored


class CountsReads(Filesystem):
    """Notes the segments whose pages are asked for."""

    def __init__(self) -> None:
        self.read_segments: set[str] = set()

    def populate(self, path: Path, view: memoryview, start: int, stop: int) -> bool:
        if path.parent.name == "commitlog" and stop - start > 4096:
            self.read_segments.add(path.name.lstrip("0"))
        return super().populate(path, view, start, stop)


LARGER = {"mappedFileSizeConsumeQueue": 40_000}
PAUSE_S = 0.0005


def test_a_manifest_describes_the_store_and_the_work_is_counted(tmp_path: Path) -> None:
    root, counted = make_store(tmp_path / "store", 100), list[tuple[int, int]]()
    for backup in ("20231114T221320.000", "20231114T221320.001"):
        made = back_up(
            root,
            tmp_path / "backups",
            clock=Clock(),
            name="n",
            version="v",
            progress=lambda *done: counted.append(done),
        )
        began_ms = 1_700_000_000_000 + int(backup[-1])
        settings = {name: value for name, value in SMALL.items() if name not in PATIENT}
        assert replace(made, files=()) == Manifest(
            backup, "n", "v", "4.9", began_ms, 1_700_000_000_000, 0, 18_815, 1_700_000_100_000, 16384, settings
        )
        assert [(one.path, one.size, one.mtime_ms > 0, one.is_sealed) for one in made.files] == [
            (f"commitlog/{0:020d}", 16384, True, True),
            (f"commitlog/{16384:020d}", 2431, True, False),
            ("queue-ends.json", 94, False, False),
            ("checkpoint", 4096, False, False),
        ]
    assert counted == [(16384, 18_815), (18_815, 18_815)] * 2


@pytest.mark.parametrize(("given", "kept"), [({}, {}), ({"enableLmq": "false"}, {"enableLmq": False})])
def test_a_manifest_keeps_a_given_setting_at_its_default(
    given: dict[str, str], kept: dict[str, bool], tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", 1)
    settings = back_up(root, tmp_path / "backups", settings=given).settings
    assert {name: value for name, value in settings.items() if not name.startswith(("mappedFile", "max"))} == kept


def test_a_log_that_ends_with_a_segment_has_none_that_is_sealed(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 100)
    (root / f"commitlog/{16384:020d}").unlink()
    made = back_up(root, tmp_path / "backups")
    assert (made.log_end, [one.is_sealed for one in made.segments]) == (16384, [False])


def test_a_store_without_a_log_has_an_empty_one(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 10)
    (root / f"commitlog/{0:020d}").unlink()
    made = back_up(root, tmp_path / "backups")
    assert (made.log_start, made.log_end, made.segments) == (0, 0, [])
    assert made.notes == ("the queues hold messages up to 1850, and the log ends at 0",)


@pytest.mark.parametrize(
    ("lost", "notes"),
    [
        ([], []),
        ([0], []),
        ([1], ["no segment holds the log from 16384 to 32768"]),
        ([1, 2], ["no segment holds the log from 16384 to 49152"]),
        ([3], ["the queues hold messages up to 56901, and the log ends at 49152"]),
    ],
)
def test_a_backup_names_the_segments_that_its_log_lacks(lost: list[int], notes: list[str], tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 300)
    for number in lost:
        (root / f"commitlog/{16384 * number:020d}").unlink()
    assert list(back_up(root, tmp_path / "backups").notes) == notes


def test_a_second_backup_reads_and_stores_what_changed(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 300)
    back_up(root, tmp_path / "backups")
    before = stored(tmp_path / "backups")
    put_more(root, 50)
    fs = CountsReads()
    back_up(root, tmp_path / "backups", fs=fs)
    assert {name.rpartition(".")[0] for name in stored(tmp_path / "backups") - before if name.startswith("log")} == {
        "log/00000000000000049152",
        "log/00000000000000065536",
    }
    assert fs.read_segments <= {"49152", "65536"}
    assert faults_in(tmp_path / "backups") == []


def test_a_segment_that_was_written_to_again_is_read_again(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 200)
    first = back_up(root, tmp_path / "backups")
    segment = root / "commitlog" / f"{0:020d}"
    data = bytearray(segment.read_bytes())
    data[200] ^= 1
    segment.write_bytes(data)
    second = back_up(root, tmp_path / "backups")
    changed = {one.path for one in second.segments} - {
        one.path for one in second.segments if one.sha256 in {old.sha256 for old in first.segments}
    }
    assert changed == {f"commitlog/{0:020d}"}


@pytest.mark.parametrize(
    ("compresses", "step"),
    [(False, 2), (True, 5), *(pytest.param(one, 1, marks=pytest.mark.slow) for one in (False, True))],
)
def test_after_a_failure_of_any_operation_the_next_backup_is_whole(compresses: bool, step: int, tmp_path: Path) -> None:
    root, kept = make_store(tmp_path / "store", 120), tmp_path / "kept"
    back_up(root, kept, compresses=compresses)
    put_more(root, 100)
    messages = messages_of(root)
    number, failed = 1 - step, True
    while failed:
        number += step
        folder = shutil.copytree(kept, tmp_path / f"backups{number}")
        fs = FaultyFilesystem(number)
        with contextlib.suppress(StoreIOError):
            back_up(root, folder, target_fs=fs, compresses=compresses)
        failed = fs.failed is not None
        assert faults_in(folder) == [], fs.failed
        back_up(root, folder, compresses=compresses)
        assert faults_in(folder) == [], fs.failed
        assert not list(folder.glob("unfinished*")), fs.failed
        assert messages_of(f"backup:{folder}") == messages
    assert number > 60


KILLED = """
import os, sys
from pathlib import Path
from store.files.filesystem import Filesystem
from tests.verbs.backup.backups import back_up

class Dies(Filesystem):
    left = int(sys.argv[3])

def dying(name):
    real = getattr(Filesystem, name)
    def method(self, *words, **named):
        Dies.left -= 1
        if not Dies.left:
            os.kill(os.getpid(), 9)
        return real(self, *words, **named)
    return method

for name in ("write", "rename", "fdatasync", "fsync_folder", "open_new", "unlink"):
    setattr(Dies, name, dying(name))
back_up(Path(sys.argv[1]), Path(sys.argv[2]), target_fs=Dies())
"""


def killed(root: Path, folder: Path, number: int) -> bool:
    """Back up in a process that kills itself before its operation of this number; False where it came to its end."""
    words = [sys.executable, "-c", KILLED, str(root), str(folder), str(number)]
    code = subprocess.run(words, check=False).returncode
    assert code in (0, -signal.SIGKILL)
    return code != 0


@pytest.mark.turns(4)
def test_nothing_that_was_finished_is_lost_by_kills(tmp_path: Path) -> None:
    root, folder = make_store(tmp_path / "store", 300), tmp_path / "backups"
    kept = set[str]()
    kills = 0
    while killed(root, folder, 3 + 2 * kills):
        kills += 1
        assert kept <= stored(folder)
        kept = stored(folder)
        assert faults_in(folder) == []
    assert kills >= 8
    assert kept <= stored(folder)
    assert faults_in(folder) == []
    assert sorted(path.name for path in folder.iterdir()) == ["backups", "lock", "log", "tables"]


def test_finished_segments_of_a_backup_that_failed_are_not_read_again(tmp_path: Path) -> None:
    root, folder = make_store(tmp_path / "store", 300), tmp_path / "backups"
    fails = FaultyFilesystem(when=lambda name, path: name == "rename" and "32768" in str(path))
    with pytest.raises(StoreIOError):
        back_up(root, folder, target_fs=fails)
    finished = {name.partition(".")[0][4:].lstrip("0") for name in stored(folder) if name.startswith("log/")}
    assert len(finished) == 2
    fs = CountsReads()
    back_up(root, folder, fs=fs)
    assert fs.read_segments == {"", "16384", "32768", "49152"} - finished
    assert faults_in(folder) == []


@pytest.mark.turns(3)
def test_each_acknowledged_message_is_in_a_backup_that_began_later(tmp_path: Path) -> None:
    root, folder, stop = tmp_path / "store", tmp_path / "backups", threading.Event()
    acknowledged: list[tuple[int, int]] = []
    make_store(root, 10, **LARGER)

    def put() -> None:
        with open_store(root, settings={**SMALL, **LARGER}, read_only=False, clock=Clock(1_800_000_000_000)) as store:
            for number in range(100_000):
                result = store.put(text_message(number, "Live", number % 4))
                acknowledged.append((number, result.log_offset))
                time.sleep(PAUSE_S)
                if stop.is_set():
                    return

    writer = threading.Thread(target=put)
    writer.start()
    try:
        backups: list[tuple[Manifest, int, int]] = []
        for _ in range(6):
            # The next backup is of another log.
            assert eventually(lambda: len(acknowledged) > (backups[-1][2] + 1 if backups else 0))
            before = len(acknowledged)
            made = back_up(root, folder)
            backups.append((made, before, len(acknowledged)))
    finally:
        stop.set()
        writer.join()
    assert len({made.log_end for made, *_ in backups}) == len(backups)
    for number, (made, before, after) in enumerate(backups):
        restore(folder, tmp_path / f"new{number}", made.id)
        bodies = [body for (topic, *_), body in messages_of(tmp_path / f"new{number}").items() if topic == "Live"]
        numbers = {int(body.split()[1]) for body in bodies}
        assert numbers == set(range(len(numbers)))
        assert before <= len(numbers) <= after + 1
        ends = {one for one, log_offset in acknowledged if log_offset < made.log_end}
        assert numbers == ends


def test_a_table_that_is_being_written_is_read_again_until_it_is_whole(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 10)
    (root / "config").mkdir()
    table, reads = root / "config/consumerOffset.json", [0]
    table.write_text('{"offsetTable":{"T@g"')

    class Finishes(Filesystem):
        def open_read(self, path: Path) -> Descriptor:
            if path == table:
                reads[0] += 1
                if reads[0] == 4:
                    table.write_text('{"offsetTable":{"T@g":{0:3}}}')
            return super().open_read(path)

    made = back_up(root, tmp_path / "backups", fs=Finishes())
    assert made.notes == ()
    stored_as = next(one.stored for one in made.files if one.path == "config/consumerOffset.json")
    assert (tmp_path / "backups" / stored_as).read_text() == '{"offsetTable":{"T@g":{0:3}}}'


def test_segments_that_a_broker_deletes_meanwhile_are_left_out(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 300)
    first = root / "commitlog" / f"{0:020d}"

    class Expires(Filesystem):
        def populate(self, path: Path, view: memoryview, start: int, stop: int) -> bool:
            first.unlink(missing_ok=True)
            return super().populate(path, view, start, stop)

    made = back_up(root, tmp_path / "backups", fs=Expires())
    assert (made.log_start, [one.file_start for one in made.segments]) == (16384, [16384, 32768, 49152])
    assert restore(tmp_path / "backups", tmp_path / "new").findings == []


def test_a_segment_made_ahead_that_a_recovery_deletes_meanwhile_is_not_missed(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 300)
    whole = back_up(root, tmp_path / "whole")
    ahead = root / "commitlog" / f"{4 * 16384:020d}"
    ahead.write_bytes(bytes(16384))

    class Recovers(Filesystem):
        def open_read(self, path: Path) -> Descriptor:
            if path == ahead:
                ahead.unlink(missing_ok=True)
            return super().open_read(path)

    made = back_up(root, tmp_path / "backups", fs=Recovers())
    assert not ahead.exists()
    assert (made.log_end, made.segments) == (whole.log_end, whole.segments)


def test_a_log_that_loses_its_newest_segment_meanwhile_has_no_backup(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 300)
    first, newest = (root / "commitlog" / f"{start:020d}" for start in (0, 3 * 16384))

    class Truncates(Filesystem):
        def populate(self, path: Path, view: memoryview, start: int, stop: int) -> bool:
            if path == first:
                newest.unlink(missing_ok=True)
            return super().populate(path, view, start, stop)

    with pytest.raises(StoreIOError, match="another process has deleted the newest segment"):
        back_up(root, tmp_path / "backups", fs=Truncates())
    assert not list((tmp_path / "backups/backups").iterdir())


def test_unreadable_pages_are_zeros_and_named(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 300)
    fs = BadSectors({f"{16384:020d}": {1}})
    made = back_up(root, tmp_path / "backups", fs=fs)
    assert made.notes == (f"commitlog/{16384:020d}: can't read bytes 4096 to 8192; the backup has zeros there",)
    assert [one.is_sealed for one in made.segments] == [True, False, True, False]


@pytest.mark.turns(4)
def test_a_segment_larger_than_a_frame_is_stored_in_frames(tmp_path: Path) -> None:
    root = tmp_path / "store"
    settings = {"mappedFileSizeCommitLog": 2 * FRAME_BYTES, "mappedFileSizeConsumeQueue": 400}
    with open_store(root, settings=settings, read_only=False, clock=Clock()) as store:
        for number in range(50):
            assert store.put(text_message(number, body_size=120_000)).is_ok
    for compresses in (True, False):
        back_up(root, tmp_path / "backups", compresses=compresses)
        assert faults_in(tmp_path / "backups") == []
        assert messages_of(f"backup:{tmp_path / 'backups'}") == messages_of(root)
        restore(tmp_path / "backups", tmp_path / f"new{compresses}")
        assert fingerprint(tmp_path / f"new{compresses}") == fingerprint(root)
    for path in (tmp_path / "backups/log").glob("*.zst"):
        assert subprocess.run(["zstd", "-tq", path], check=False).returncode == 0


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 10)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("mine")
    with pytest.raises(BadRequest, match="the folder has other files, and no backups"):
        back_up(root, tmp_path / "other")
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["file"]


def test_two_writers_keep_each_other_out(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 10)
    back_up(root, tmp_path / "backups")
    with (
        StoreLock(tmp_path / "backups/lock", Filesystem()),
        pytest.raises(StoreLocked, match="the folder of backups is in use by process"),
    ):
        back_up(root, tmp_path / "backups")


def test_another_store_in_the_folder_and_a_log_that_became_shorter_are_named(tmp_path: Path) -> None:
    long, short = make_store(tmp_path / "long", 50), make_store(tmp_path / "short", 10)
    first = back_up(long, tmp_path / "backups")
    assert back_up(short, tmp_path / "backups").notes == (f"the backup {first.id} is of another store: {long}",)
    first = back_up(long, tmp_path / "b", name="a")
    second = back_up(short, tmp_path / "b", name="a")
    assert second.notes == (f"the log ends at 1850, the backup {first.id} at {first.log_end}",)


def test_two_backups_in_one_millisecond_have_two_ids(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 10)
    ids = [back_up(root, tmp_path / "backups", clock=Clock()).id for _ in range(3)]
    assert ids == ["20231114T221320.000", "20231114T221320.001", "20231114T221320.002"]


def test_a_torn_line_in_the_list_of_finished_files_costs_that_file_alone(tmp_path: Path) -> None:
    root, folder = make_store(tmp_path / "store", 300), tmp_path / "backups"
    made = back_up(root, folder)
    (folder / f"backups/{made.id}.json").unlink()
    rows = [
        {"path": one.path, "size": one.size, "sha256": one.sha256, "stored": one.stored,
         "stored_size": one.stored_size, "mtime_ms": one.mtime_ms, "is_sealed": True}
        for one in made.segments[:2]
    ]  # fmt: skip
    lines = [json.dumps(rows[0])[:50], json.dumps(rows[1]), json.dumps({**rows[0], "stored": "../../etc"})]
    (folder / "unfinished.jsonl").write_text("\n".join(lines))
    fs = CountsReads()
    back_up(root, folder, fs=fs)
    assert fs.read_segments == {"", "32768", "49152"}


def test_a_backup_after_one_of_a_later_clock_is_the_newest_all_the_same(tmp_path: Path) -> None:
    root, to = make_store(tmp_path / "store", 5), tmp_path / "backups"
    clocks = (1_800_000_000_000, 1_500_000_000_000, 1_800_000_000_000, 1_800_000_000_003)
    made = [back_up(root, to, clock=lambda now=now: now) for now in clocks]
    # Each is a millisecond newer at least.
    wanted = [1_800_000_000_000, 1_800_000_000_001, 1_800_000_000_002, 1_800_000_000_003]
    assert [one.began_ms for one in made] == wanted
    assert [time_of_id(one.id) for one in made] == wanted
    assert [one.id for one in made] == [backup_id(one) for one in wanted]
