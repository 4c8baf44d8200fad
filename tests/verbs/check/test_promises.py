"""What the checkpoint promises, against what the files reach."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store import Message, check, open_store
from store.errors import StoreIOError
from store.files.store_reader import StoredFile, StoreReader
from store.structures.consumequeue.survey import QueueFile
from store.structures.findings import (
    CHECKPOINT_AHEAD,
    CHECKPOINT_INVALID,
    Finding,
)
from store.verbs.check import promises
from store.verbs.check.seams import SegmentSummary
from tests.support.golden import copy_store, golden
from tests.support.stores import SMALL, Clock
from tests.verbs.check.stores import SIZE, findings, records


@pytest.mark.turns(3)
@pytest.mark.parametrize("later", [-1, 0, 1, 7])
@pytest.mark.parametrize("field", ["physic", "logics", "index", "master_flushed", "confirm"])
def test_the_checkpoint_promises_no_more_than_the_files_reach(field: str, later: int, root: Path) -> None:
    last = records(root)[-1]
    full = sorted((root / "index").iterdir())[-2].read_bytes()
    reached = {
        "physic": last.store_timestamp_ms,
        "logics": last.store_timestamp_ms,
        "index": int.from_bytes(full[8:16], "big"),
        "master_flushed": last.log_offset + last.size,
        "confirm": last.log_offset + last.size,
    }
    at = [*reached].index(field) * 8
    page = bytearray((root / "checkpoint").read_bytes())
    page[at : at + 8] = (reached[field] + later).to_bytes(8, "big")
    (root / "checkpoint").write_bytes(page)
    unit = "ms" if at < 24 else "bytes"
    detail = f"{field} is {{}}, {later} {unit} later than anything in the files"
    found = findings(root)
    assert [(one.kind, one.file, one.offset) for one in found] == [(CHECKPOINT_AHEAD, "checkpoint", at)] * (later > 0)
    assert all(one.detail.endswith(detail.split("{}")[1]) for one in found)


@pytest.mark.parametrize("later", [0, 1])
def test_after_a_blank_the_log_reaches_to_the_start_of_a_segment_without_records(later: int, tmp_path: Path) -> None:
    root = copy_store(golden("normal5").store, tmp_path / "store")
    last = max((root / "commitlog").iterdir())
    last.write_bytes(bytes(last.stat().st_size))
    with (root / "checkpoint").open("r+b") as file:
        file.seek(32)
        file.write((int(last.name) + later).to_bytes(8, "big"))
    details = [one.detail for one in check(root) if (one.kind, one.offset) == (CHECKPOINT_AHEAD, 32)]
    assert details == ["confirm is 131073, 1 bytes later than anything in the files"] * later


@pytest.mark.parametrize("times", [[-1], [-5, -3], [-60_000, -1, 5], [-(1 << 63)], [-(1 << 62), -1]])
def test_the_files_of_messages_from_before_1970_are_sound(times: list[int], tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path, settings=SMALL, read_only=False, clock=clock) as store:
        for clock.now_ms in times:
            store.put(Message.of("T", "x", keys=["k"]))
        store.catch_up()
    assert findings(tmp_path) == []


NO_CHECKPOINT = "there is no checkpoint: an abnormal recovery reads the whole log"


@pytest.mark.parametrize(("size", "fault"), [(None, NO_CHECKPOINT), (23, "23 bytes, expected 4096"), (4096, None)])
def test_a_checkpoint_that_is_missing_or_short_is_found(size: int | None, fault: str | None, root: Path) -> None:
    data = (root / "checkpoint").read_bytes()
    (root / "checkpoint").unlink()
    if size is not None:
        (root / "checkpoint").write_bytes(data[:size])
    expected = [Finding(CHECKPOINT_INVALID, "checkpoint", 0, detail=fault)] if fault else []
    assert findings(root, CHECKPOINT_INVALID) == expected


def test_a_checkpoint_of_which_nothing_can_be_read_is_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (errno.EIO, errno.EACCES):
        error = StoreIOError("its bytes can't be read", errno=number)
        monkeypatch.setattr(promises, "read_file", lambda files, error=error: raised(error))
        found = promises.checkpoint_file_findings(StoreReader(str(root)))
        if number in promises.UNREADABLE:
            expected = Finding(CHECKPOINT_INVALID, f"{root}/checkpoint", 0, detail=error.reason)
            assert list(found) == [expected]
        else:
            with pytest.raises(StoreIOError):
                list(found)


def raised(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize("index_ms", [0, 1])
@pytest.mark.parametrize("has_segment", [True, False])
def test_beside_a_log_without_records_the_checkpoint_promises_nothing(
    has_segment: bool, index_ms: int, tmp_path: Path
) -> None:
    (tmp_path / "commitlog").mkdir()
    if has_segment:
        (tmp_path / "commitlog" / f"{0:020d}").write_bytes(bytes(SIZE))
    numbers = (1, 0, index_ms, 0, 1)
    (tmp_path / "checkpoint").write_bytes(b"".join(one.to_bytes(8, "big") for one in numbers).ljust(4096, b"\0"))
    rows = [(one.offset, one.detail) for one in findings(tmp_path, CHECKPOINT_AHEAD)]
    assert rows == [
        (0, "physic is 1, and the log holds no message"),
        *[(16, "index is 1, and no index file is full")] * index_ms,
        (32, "confirm is 1, 1 bytes later than anything in the files"),
    ]


@pytest.mark.parametrize(
    ("log_offset", "time_ms"), [(99, 0), (100, 1), (199, 100), (200, 0), (300, 1), (399, 100), (400, 0)]
)
def test_a_units_time_is_that_of_the_record_in_the_segment_that_holds_it(log_offset: int, time_ms: int) -> None:
    head = lambda at: bytes(56) + (at + 1).to_bytes(8, "big") + bytes(32)  # noqa: E731
    files: Any = SimpleNamespace(read=lambda path, at, size: head(at)[:size])
    segments = [StoredFile("", 100, 100, 0), StoredFile("", 300, 100, 0)]
    assert promises._store_time(files, segments, log_offset) == time_ms


@pytest.mark.parametrize(
    ("segments", "seams", "time_ms"),
    [
        ([100, 200], [(100, 5), (200, 6)], 7),
        ([100, 200], [(100, 0), (200, 6)], 0),
        ([100, 200], [(200, 6)], 0),
        ([100], [], 0),
        ([], [], 0),
    ],
)
def test_the_first_time_is_that_of_the_logs_first_segment(
    segments: list[int], seams: list[tuple[int, int]], time_ms: int
) -> None:
    walked = [SegmentSummary("", start, record_count=count, first_ms=7) for start, count in seams]
    assert promises._first_time([StoredFile("", start, 100, 0) for start in segments], walked) == time_ms


@pytest.mark.parametrize(("end", "count"), [(None, 0), (None, 1), (77, 1)])
def test_what_no_file_tells_counts_as_0(end: int | None, count: int) -> None:
    files: Any = SimpleNamespace(names=lambda folder: [], exists=lambda path: False)
    seams = [SegmentSummary("", 0, end=end, record_count=1)] * count
    reached = promises._reached(files, [], seams, [])
    assert (reached.log_end, reached.log_ms, reached.queue_ms) == (end or 0, 0, 0)
    assert (reached.first_ms, reached.index_ms) == (0, 0)


@pytest.mark.parametrize(
    ("newest", "queue_ms"),
    [(-1, 0), (0, 900), (1, 1), (40, 40), (110, 110), (199, 199), (250, 900), (251, 900), (400, 900)],
)
def test_queues_reach_the_time_of_their_newest_record_and_past_the_log_that_of_the_log(
    newest: int, queue_ms: int
) -> None:
    """A record's time is its log offset, and the log ends at 250."""
    read = lambda path, at, size: bytes(56) + (int(path) + at).to_bytes(8, "big") + bytes(32)  # noqa: E731
    files: Any = SimpleNamespace(names=lambda folder: [], exists=lambda path: False, read=read)
    segments = [StoredFile("0", 0, 100, 0), StoredFile("100", 100, 100, 0)]
    seams = [
        SegmentSummary("0", 0, first=0, end=95, record_count=3, first_ms=1, newest_ms=900),
        SegmentSummary("100", 100, first=100, end=250, record_count=3, first_ms=5, newest_ms=800),
        SegmentSummary("200", 200),
    ]
    surveys = [QueueFile("T", 0, "", 0, 400, 0, 0, 0, high, rises=True) for number, high in enumerate((-1, newest))]
    reached = promises._reached(files, segments, seams, surveys)
    assert (reached.log_end, reached.log_ms, reached.queue_ms, reached.first_ms) == (250, 900, queue_ms, 1)
