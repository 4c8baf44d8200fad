"""A backup that grows with a received log: pieces, full segments, tables that wait, days, files that are replaced."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store import open_store
from store.errors import Diverged, StoreError, StoreIOError
from store.files.filesystem import Filesystem
from store.files.store_reader import StoredFile, StoreReader
from store.formats.backup_manifest import BackedFile
from store.opened.detect import find_store, make_layout
from store.structures.commitlog.slices import whole_segment
from store.verbs.backup import grow
from store.verbs.backup.folder import BackupFolder
from store.verbs.backup.grow import GrowingBackup
from store.verbs.backup.prune import DAY_MS, differences, plan_prune
from tests.support.stores import SMALL, Clock, make_store, text_message
from tests.verbs.backup.backups import back_up, faults_in, messages_of, restore, stored

NOW_MS = 1_800_000_000_000
SEGMENT = 16384


def put_more(root: Path, start: int, count: int) -> int:
    """Put messages; gives the log's end."""
    with open_store(root, settings=SMALL, read_only=False, clock=Clock(NOW_MS)) as store:
        for number in range(start, start + count):
            assert store.put(text_message(number)).is_ok
        return store.max_log_offset


class Growing:
    """A store, a copy of its log that lags, and the backup."""

    def __init__(self, tmp_path: Path) -> None:
        self.root, self.received, self.to = make_store(tmp_path / "store", 20), tmp_path / "copy", tmp_path / "backups"
        self.now_ms, self.warned = NOW_MS, list[StoreError]()
        made = back_up(self.root, self.to, clock=lambda: NOW_MS)
        self.target = BackupFolder(self.to, Filesystem())
        found = find_store(make_layout(self.root, SMALL, Filesystem()), SMALL, Filesystem())
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        self.backup = GrowingBackup(
            made, found, self.target, self.received, scratch, Filesystem(), lambda: self.now_ms, self.warned.append
        )

    def receive(self) -> int:
        """Copy the log of the store as it is; gives its end."""
        shutil.rmtree(self.received, ignore_errors=True)
        shutil.copytree(self.root / "commitlog", self.received / "commitlog")
        with open_store(self.root) as store:
            return store.max_log_offset

    def grow(self) -> None:
        end = self.receive()
        with self.target.writing():
            self.backup.grow(end)

    @property
    def pieces(self) -> list[tuple[int, int, bool]]:
        """Where each stored part of the log begins and ends, and whether it is a full segment."""
        files = self.backup.manifest.segments
        return [(one.file_start + one.position, one.file_start + one.end, one.is_sealed) for one in files]


@pytest.fixture(name="growing")
def make_growing(tmp_path: Path) -> Growing:
    return Growing(tmp_path)


def test_each_growth_stores_the_new_bytes_alone_and_a_full_segment_as_one_file(
    growing: Growing, tmp_path: Path
) -> None:
    ends = [growing.backup.manifest.log_end]
    for number, count in enumerate((10, 4)):
        ends.append(put_more(growing.root, 100 * (number + 1), count))
        growing.grow()
    assert growing.pieces == [(0, ends[0], False), (ends[0], ends[1], False), (ends[1], ends[2], False)]
    end = put_more(growing.root, 300, 80)
    growing.grow()
    assert growing.pieces == [(0, SEGMENT, True), (SEGMENT, end, False)]
    assert [one.path for one in growing.backup.manifest.files][:2] == [f"commitlog/{at:020d}" for at in (0, SEGMENT)]
    assert faults_in(growing.to) == []
    restore(growing.to, tmp_path / "new")
    assert messages_of(tmp_path / "new") == messages_of(growing.root)


def test_a_store_of_pieces_reads_and_restores_as_the_log_to_any_offset(growing: Growing, tmp_path: Path) -> None:
    for number, count in enumerate((8, 4, 2)):
        put_more(growing.root, 100 * (number + 1), count)
        growing.grow()
    assert len(growing.pieces) == 4
    reader = StoreReader(f"backup:{growing.to}")
    (segment,) = reader.segments()
    data = (growing.root / "commitlog" / f"{0:020d}").read_bytes()
    assert (segment.size, bytes(reader.read(segment.path))) == (SEGMENT, data)
    assert whole_segment(segment).stop == SEGMENT
    for start, end, _ in growing.pieces:
        for first, last in ((start, end), (start - 1, end + 1), (start + 1, end - 1), (max(start - 50, 0), start)):
            first = max(first, 0)
            assert bytes(reader.read(segment.path, first, last - first)) == data[first:last]
    assert messages_of(f"backup:{growing.to}") == messages_of(growing.root)
    with open_store(growing.root) as store:
        places = {one.log_offset: one.body for queue in range(3) for one in store.messages("T", queue)}
    for number, moment in enumerate(sorted({*list(places)[::5], *(end for _, end, _ in growing.pieces)})):
        restore(growing.to, tmp_path / f"new{number}", log_offset=moment)
        found = messages_of(tmp_path / f"new{number}")
        assert sorted(found.values()) == sorted(body for place, body in places.items() if place < moment)


@pytest.mark.turns(3)
def test_each_piece_of_a_segment_is_longer_than_all_after_it(growing: Growing) -> None:
    written, before = 0, growing.backup.manifest.log_end
    for number in range(1, 33):
        end = put_more(growing.root, 100 * number, 1)
        growing.grow()
        pieces = growing.pieces
        assert (pieces[0][0], pieces[-1][1]) == (0, end)
        assert [one[1] for one in pieces[:-1]] == [one[0] for one in pieces[1:]]
        assert all(stop - start > end - stop for start, stop, _ in pieces)
        assert len(pieces) <= 1 + number.bit_length()
        written += end - pieces[-1][0]
    # Each byte is written once for each doubling at most, and not with each growth.
    assert written < 6 * (end - before)


@pytest.mark.parametrize(
    ("ends", "log_end", "expected"),
    [
        ([100], 100, [100]),
        ([100], 101, [100, 101]),
        ([100], 199, [100, 199]),
        ([100], 200, [200]),
        ([100, 150], 199, [100, 150, 199]),
        ([100, 150], 200, [200]),
        ([150, 170], 190, [150, 190]),
        ([150, 170], 189, [150, 170, 189]),
        ([150, 170, 175], 300, [300]),
        ([], 7, [7]),
        ([900], 1000, [1000]),
        ([1000], 1700, [1000, 1700]),
        ([1000], 2000, [1000, 2000]),
    ],
)
def test_a_piece_is_written_again_with_what_follows_once_that_is_as_long(
    ends: list[int], log_end: int, expected: list[int]
) -> None:
    """Of segments of 1000 bytes, the first of which has expired."""

    def piece(start: int, stop: int) -> BackedFile:
        number = start // 1000 * 1000
        return BackedFile(
            f"commitlog/{number:020d}", stop - start, "", "", 0, position=start - number, is_sealed=not stop % 1000
        )

    segments = [StoredFile(f"commitlog/{at:020d}", at, 1000, 0) for at in (-1000, 0, 1000)]
    growing: Any = object.__new__(GrowingBackup)
    pieces = [piece(start, stop) for start, stop in pairwise([0, *ends])]
    growing.manifest = SimpleNamespace(log_start=0, segments=pieces)
    growing._add = lambda reader, segment, part: replace(
        piece(segment.number + part.start, segment.number + part.stop), is_sealed=False
    )
    found = growing._add_log(SimpleNamespace(segments=lambda: segments), log_end)
    assert found == [piece(start, stop) for start, stop in pairwise([0, *expected])]


def test_a_segment_whose_end_is_still_to_come_is_no_full_one(growing: Growing) -> None:
    before = growing.backup.manifest.log_end
    put_more(growing.root, 100, 80)
    growing.receive()
    (growing.received / "commitlog" / f"{SEGMENT:020d}").unlink()
    with growing.target.writing():
        growing.backup.grow(SEGMENT - 1)
        assert growing.pieces == [(0, before, False)]
        growing.backup.grow(SEGMENT)
        assert growing.pieces == [(0, SEGMENT, True)]


def test_tables_wait_until_the_log_has_what_their_queues_name(growing: Growing) -> None:
    def tables() -> dict[str, str]:
        return {one.path: one.sha256 for one in growing.backup.manifest.files if not one.is_log}

    before, end = tables(), growing.receive()
    put_more(growing.root, 100, 5)
    for number in range(1, grow.PATIENCE + 2):
        with growing.target.writing():
            growing.backup.grow(end)
        assert bool(growing.warned) == (number >= grow.PATIENCE)
    assert tables() == before
    reason = f"newer tables are not in the backup: its queues name the log up to {growing.receive()}"
    assert [str(one).partition(": ")[2] for one in growing.warned] == [f"{reason}, and it was received up to {end}"]
    growing.grow()
    assert tables()["queue-ends.json"] != before["queue-ends.json"]


def test_waiting_tables_that_a_prune_deletes_are_copied_again(growing: Growing) -> None:
    end = growing.receive()
    put_more(growing.root, 100, 5)
    with growing.target.writing():
        growing.backup.grow(end)
        plan_prune(growing.target, growing.now_ms, keep_last=None, keep_days=None).apply(growing.target)
    growing.grow()
    assert faults_in(growing.to) == []


def test_tables_that_cannot_be_read_are_told_and_the_log_grows(
    growing: Growing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StoreIOError("no")

    monkeypatch.setattr(grow, "back_up_tables", fail)
    end = put_more(growing.root, 100, 5)
    growing.grow()
    assert ([str(one) for one in growing.warned], growing.backup.manifest.log_end) == (["no"], end)


@pytest.mark.parametrize(("passed_ms", "count"), [(DAY_MS - 1, 1), (DAY_MS, 2), (DAY_MS + 1, 2)])
def test_after_a_day_another_backup_begins_with_the_segments_that_the_master_has(
    growing: Growing, passed_ms: int, count: int
) -> None:
    put_more(growing.root, 100, 200)
    growing.grow()
    growing.receive()
    first = growing.backup.manifest
    (growing.root / "commitlog" / f"{0:020d}").unlink()
    for number in (0, SEGMENT):
        # A follower keeps the newest segment alone.
        (growing.received / "commitlog" / f"{number:020d}").unlink()
    growing.now_ms += passed_ms
    with growing.target.writing():
        growing.backup.grow(first.log_end)
    found = growing.target.manifests()
    assert (len(found), found[-1].log_start) == (count, SEGMENT if count == 2 else 0)
    assert faults_in(growing.to) == []
    changed = [one.path for one in differences(first, found[-1]) if one.path.startswith("commitlog")]
    assert changed == ([f"commitlog/{0:020d}"] if count == 2 else [])


@pytest.mark.parametrize(("kept_s", "is_there"), [(-1.0, False), (3600.0, True)])
def test_replaced_files_stay_an_hour_for_those_who_read_them(
    growing: Growing, monkeypatch: pytest.MonkeyPatch, kept_s: float, is_there: bool
) -> None:
    monkeypatch.setattr(grow, "KEPT_S", kept_s)
    put_more(growing.root, 100, 5)
    growing.grow()
    pieces = {one.stored for one in growing.backup.manifest.segments}
    put_more(growing.root, 200, 80)
    growing.grow()
    assert (pieces <= stored(growing.to), faults_in(growing.to)) == (is_there, [])
    assert is_there or not pieces & stored(growing.to)


def test_files_of_another_backup_stay(growing: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grow, "KEPT_S", -1.0)
    growing.now_ms += DAY_MS
    put_more(growing.root, 100, 5)
    growing.grow()
    put_more(growing.root, 200, 80)
    growing.grow()
    assert (len(growing.target.manifests()), faults_in(growing.to)) == (2, [])


def test_a_backup_that_a_prune_deleted_does_not_come_back(growing: Growing) -> None:
    back_up(growing.root, growing.to, clock=lambda: NOW_MS + 1)
    with growing.target.writing():
        plan_prune(growing.target, growing.now_ms, keep_last=1, keep_days=None).apply(growing.target)
    with pytest.raises(StoreIOError, match=f"^{growing.to}: the backup {growing.backup.manifest.id} is deleted"):
        growing.grow()


def test_the_log_of_another_broker_does_not_replace_the_newest_segment(growing: Growing) -> None:
    before = growing.backup.manifest
    put_more(growing.root, 100, 80)
    end = growing.receive()
    path = growing.received / before.segments[-1].path
    data = bytearray(path.read_bytes())
    data[before.log_end - 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(Diverged, match="has other bytes than the store") as refused, growing.target.writing():
        growing.backup.grow(end)
    assert str(refused.value.hint).startswith(f"delete {growing.received}, ")
    assert (growing.backup.manifest, growing.target.newest()) == (before, before)
    growing.grow()
    assert growing.backup.manifest.log_end == end


@pytest.mark.parametrize("missing", [1, 0])
def test_a_backup_grows_once_its_own_end_is_received(growing: Growing, missing: int) -> None:
    """Before, the received file of a full segment has zeros for bytes that the backup has."""
    before, growing.now_ms = growing.backup.manifest, NOW_MS + 5
    growing.receive()
    with growing.target.writing():
        growing.backup.grow(before.log_end - missing)
    assert growing.backup.manifest.ended_ms == (before.ended_ms if missing else NOW_MS + 5)


def test_a_newest_segment_with_unreadable_bytes_is_not_compared(growing: Growing) -> None:
    made = growing.backup.manifest
    path = made.segments[-1].path
    growing.backup.manifest = replace(
        made,
        files=tuple(replace(one, sha256="0" * 64) if one.is_log else one for one in made.files),
        notes=(f"{path}: can't read bytes 0 to 4096; the backup has zeros there",),
    )
    put_more(growing.root, 100, 80)
    growing.grow()
    assert growing.backup.manifest.log_end > made.log_end
