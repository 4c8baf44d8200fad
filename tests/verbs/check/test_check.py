"""The findings of a check, by whole rows: names, seams between segments, promises of the checkpoint, one segment."""

from __future__ import annotations

import itertools
import zlib
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from store import Message, check, open_store
from store.errors import BadRequest, NotAStore
from store.files.places import RemotePlace
from store.files.store_reader import StoredFile, StoreReader
from store.formats.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET
from store.structures.findings import MISSING_UNIT, NEWER, QUEUE_DUPLICATE, UNKNOWN_NAME, Finding
from store.verbs.check import check as checks
from store.verbs.check.check import _Check, check_files, finding_kinds, is_chosen, require_within, seams_before
from store.verbs.check.options import CheckOptions, Progress
from store.verbs.check.segment import SegmentRules
from tests.support.stores import SMALL, make_store
from tests.verbs.check.stores import SIZE, findings, write

NONE: Any = StoreReader("/store")


def test_the_segments_before_an_offset_are_summed_up_back_to_one_with_records_in_log_order(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 100)
    for number in (2, 3, 4):
        (root / "commitlog" / f"{number * SIZE:020d}").write_bytes(bytes(SIZE))
    files = StoreReader(str(root))
    found = seams_before(files, files.segments(), CheckOptions(from_offset=4 * SIZE), SegmentRules(()))
    assert [(one.file_start, one.record_count > 0) for one in found] == [
        (SIZE, True), (2 * SIZE, False), (3 * SIZE, False),
    ]  # fmt: skip


@pytest.mark.parametrize(("reports", "sizes"), [(False, [SIZE, SIZE]), (True, [SIZE, 10_000])])
def test_the_hole_at_the_logs_end_is_not_to_be_walked_where_the_progress_is_reported(
    reports: bool, sizes: list[int], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = StoreReader(str(root))
    monkeypatch.setattr(files, "written_end", lambda path: 10_000)
    checked = _Check(files, CheckOptions(), Progress(), (lambda progress: None) if reports else None, None)
    assert [checked._written_size(checked.segments[number]) for number in (0, -1)] == sizes


def test_a_structure_of_a_newer_broker_is_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "newer_structures", lambda layout, fs: iter([(root / "new", "found here")]))
    assert findings(root) == [Finding(NEWER, "new", 0, detail="found here")]


@pytest.mark.parametrize("has_writer", [True, False])
def test_the_newest_index_file_is_a_writers_where_there_is_one(has_writer: bool, root: Path) -> None:
    checked = _Check(StoreReader(str(root)), CheckOptions(), Progress(), None, None)
    checked.is_written_to = has_writer
    newest = f"index/{max((root / 'index').iterdir()).name}"
    assert checked.listing_rules().written_index == (newest if has_writer else None)


def test_the_progress_begins_at_nothing_and_ends_with_all_that_is_to_be_walked(root: Path) -> None:
    told: list[tuple[int, int]] = []
    progress = Progress()
    files = StoreReader(str(root))
    options = CheckOptions(threads=1)
    assert list(check_files(files, options, progress, lambda now: told.append((now.walked, now.to_walk)))) == []
    in_all, written = len(files.segments()) * SIZE, told[0][1]
    assert in_all - SIZE < written <= in_all
    assert (told[0], told[-1]) == ((0, written), (written, written))
    assert told == sorted(told)
    assert (progress.bytes_done, progress.bytes_in_all) == (in_all, in_all)


def segment(number: int, size: int = 100, path: str = "commitlog/00000000000000000000") -> StoredFile:
    return StoredFile(path, number, size, 0)


@pytest.mark.parametrize(("from_offset", "is_in"), [(0, True), (199, True), (200, False), (201, False)])
def test_a_segment_is_walked_when_it_ends_after_the_first_offset(from_offset: int, is_in: bool) -> None:
    assert is_chosen(segment(100), CheckOptions(from_offset=from_offset)) == is_in


@pytest.mark.parametrize("percent", [0, 0.01, 10, 50, 99.99, 100])
def test_a_sample_is_of_the_given_percent_and_part_of_every_larger_one(percent: float) -> None:
    segments = [segment(0, path=f"commitlog/{number:020d}") for number in range(2000)]
    chosen = {one.path for one in segments if is_chosen(one, CheckOptions(sample_percent=percent))}
    larger = {one.path for one in segments if is_chosen(one, CheckOptions(sample_percent=min(percent + 5, 100)))}
    assert chosen <= larger
    assert abs(len(chosen) - 20 * percent) <= (60 if 0 < percent < 100 else 0)


@pytest.mark.parametrize(
    ("from_offset", "segments", "end"),
    [(0, [], None), (1, [], 0), (299, [0, 200], None), (300, [0, 200], 300), (301, [0, 200], 300)],
)
def test_a_check_from_the_logs_end_on_is_refused(from_offset: int, segments: list[int], end: int | None) -> None:
    files = [segment(number) for number in segments]
    if end is None:
        require_within(NONE, files, from_offset)
    else:
        message = f"nothing to check from log offset {from_offset} on: the last segment ends at {end}"
        with pytest.raises(BadRequest, match=message):
            require_within(NONE, files, from_offset)


@pytest.mark.parametrize(("percent", "is_in"), [(24.75, False), (25, False), (25.25, True), (100, True)])
def test_a_segment_is_in_the_samples_above_the_percent_that_its_name_gives(percent: float, is_in: bool) -> None:
    paths = (f"commitlog/{number:020d}" for number in itertools.count())
    at_25 = next(path for path in paths if zlib.crc32(path.encode()) % 10_000 == 2500)
    assert is_chosen(segment(0, path=at_25), CheckOptions(sample_percent=percent)) == is_in


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAStore):
        check(tmp_path / "none")


def test_of_a_remote_store_no_folder_of_this_machine_is_looked_at(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here/surprise").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    files = StoreReader(str(root))
    assert list(check_files(files)) == []
    remote = RemotePlace(str(root), pafs.SubTreeFileSystem("/", pafs.LocalFileSystem()), str(root))
    monkeypatch.setattr(files, "_place", remote)
    assert list(check_files(files)) == []


def test_a_name_in_the_store_that_no_structure_explains_is_found(root: Path) -> None:
    (root / "surprise").mkdir()
    assert findings(root) == [Finding(UNKNOWN_NAME, "surprise", 0, detail="changes leave it as it is")]


@pytest.mark.leaves_damage
def test_messages_that_name_light_queues_need_units_there_unless_the_setting_is_off(tmp_path: Path) -> None:
    properties = {INNER_MULTI_DISPATCH: "%LMQ%a", INNER_MULTI_QUEUE_OFFSET: "0"}
    with open_store(tmp_path, settings=SMALL, read_only=False) as store:
        assert store.put(Message.of("T", b"x", properties=properties)).is_ok
    lost = [(MISSING_UNIT, "%LMQ%a")]
    for settings, expected in (
        ({"enableMultiDispatch": False}, []),
        ({"enableMultiDispatch": True}, lost),
        ({}, lost),
    ):
        found = check(tmp_path, CheckOptions(settings=settings))
        assert [(one.kind, one.topic) for one in found] == expected


def test_light_queues_count_on_between_the_segments_of_two_runs(tmp_path: Path) -> None:
    """The second run sums up the segment before its own."""
    settings = {**SMALL, "enableLmq": True, "enableMultiDispatch": True}
    root = tmp_path / "store"
    with open_store(root, read_only=False, compat="5.3", settings=settings) as store:
        for _ in range(90):
            assert store.put(Message.of("T", bytes(100), properties={INNER_MULTI_DISPATCH: "%LMQ%a"})).is_ok
    first = (root / "commitlog" / f"{0:020d}").read_bytes()
    # The last record of the first segment names another queue offset.
    at = first.rindex(INNER_MULTI_QUEUE_OFFSET.encode()) + len(INNER_MULTI_QUEUE_OFFSET) + 1
    write(root, at, b"9")
    options = CheckOptions(from_offset=SIZE, settings=settings)
    repeated = [(one.topic, one.offset) for one in check(root, options) if one.kind == QUEUE_DUPLICATE]
    assert repeated == [("%LMQ%a", SIZE)]


NO_FILES = {"indexFileWriteEnable": "false"}


def kinds_with(settings: dict[str, str], root: Path) -> list[str]:
    return [one.kind for one in check_files(StoreReader(str(root)), CheckOptions(settings=settings))]


@pytest.mark.parametrize(
    ("settings", "kept", "expected"),
    [
        ({}, 2, []),
        ({}, 1, ["missing-index-entry", "missing-index-entry"]),
        (NO_FILES, 2, []),
        (NO_FILES, 1, []),
        ({"messageIndexEnable": "false"}, 1, []),
    ],
)
def test_index_files_of_a_broker_that_writes_none_any_more_end_somewhere(
    settings: dict[str, str], kept: int, expected: list[str], tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", 100, maxIndexNum=151)
    files = sorted((root / "index").iterdir())
    assert len(files) == 2
    for path in files[kept:]:
        path.unlink()
    assert kinds_with(settings, root) == expected


@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("settings", "expected"), [({}, ["lost-index"]), (NO_FILES, []), ({"messageIndexEnable": "false"}, [])]
)
def test_a_store_whose_broker_writes_no_index_files_has_lost_none(
    settings: dict[str, str], expected: list[str], tmp_path: Path
) -> None:
    assert kinds_with(settings, make_store(tmp_path / "store", 100, **NO_FILES)) == expected


def test_the_kinds_of_findings_are_named_in_order() -> None:
    kinds = finding_kinds()
    assert kinds == sorted(set(kinds))
    assert {"bad-crc", "missing-unit"} <= set(kinds)
