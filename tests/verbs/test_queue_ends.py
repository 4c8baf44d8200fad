"""Both ends of a queue by its files: what counts as written, as expired and as no unit."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.files.store_reader import StoreReader
from store.formats.queue_unit import PRE_BLANK, UNIT_SIZE, QueueUnit, encode_ext_address
from store.verbs.queue_ends import QueueEnd, queue_ends

UNITS_PER_FILE = 4
NONE, WRONG = QueueUnit(0, 0, 0), QueueUnit(-1, 91, 0)


def unit(number: int, tags_code: int = 7) -> QueueUnit:
    """The unit of the record at 100 times its number."""
    return QueueUnit(100 * number, 91, tags_code)


def ends_of(
    root: Path, files: dict[int, list[QueueUnit]], min_log_offset: int = 0, line: BrokerLine = LINE_4_9
) -> QueueEnd:
    """Give the end of one queue with these units in the files of these numbers."""
    folder = root / "consumequeue/T/3"
    folder.mkdir(parents=True)
    for number, units in files.items():
        data = b"".join(one.encode() for one in units).ljust(UNITS_PER_FILE * UNIT_SIZE, b"\0")
        (folder / f"{number * UNITS_PER_FILE * UNIT_SIZE:020d}").write_bytes(data)
    (end,) = queue_ends(StoreReader(str(root)), min_log_offset, line)
    return end


def told(end: QueueEnd) -> tuple[int, int, int, int]:
    return end.min_offset, end.max_offset, end.newest, end.end


@pytest.mark.parametrize(
    ("files", "min_log_offset", "expected"),
    [
        ({}, 0, (0, 0, -1, -1)),
        ({0: []}, 0, (0, 0, -1, -1)),
        ({2: []}, 0, (8, 8, -1, -1)),
        ({1: [], 2: []}, 0, (4, 4, -1, -1)),
        ({0: [unit(0)]}, 0, (0, 1, 0, 91)),
        ({0: [unit(0), unit(1)]}, 0, (0, 2, 100, 191)),
        ({0: [unit(0), unit(1), unit(2)]}, 100, (1, 3, 200, 291)),
        ({0: [unit(0), unit(1), unit(2)]}, 101, (2, 3, 200, 291)),
        ({0: [unit(0), unit(1)]}, 101, (0, 2, 100, 191)),
        ({0: [unit(0), NONE, unit(2)]}, 0, (0, 3, 200, 291)),
        ({0: [NONE, unit(1)]}, 0, (1, 2, 100, 191)),
        ({0: [QueueUnit(-1, 91, 0), unit(1), QueueUnit(5, -1, 0)]}, 0, (1, 2, 100, 191)),
        ({1: [PRE_BLANK, PRE_BLANK, unit(6)]}, 0, (6, 7, 600, 691)),
        ({1: [PRE_BLANK, PRE_BLANK]}, 0, (4, 4, -1, -1)),
        ({0: [unit(n) for n in range(4)], 1: [unit(4)]}, 0, (0, 5, 400, 491)),
        ({0: [unit(n) for n in range(4)], 1: []}, 0, (0, 4, 300, 391)),
        ({0: [unit(n) for n in range(4)], 1: [unit(4), unit(5)]}, 500, (5, 6, 500, 591)),
        ({1: [unit(n) for n in range(4, 8)], 2: [unit(8)]}, 600, (6, 9, 800, 891)),
        ({0: [unit(n) for n in range(4)], 1: [unit(4), unit(5)]}, 501, (0, 6, 500, 591)),
        ({0: [WRONG, *(unit(n) for n in range(1, 4))], 1: [unit(4), WRONG]}, 0, (1, 5, 400, 491)),
    ],
)
def test_a_queue_reaches_from_its_first_kept_unit_past_its_last_written_one(
    files: dict[int, list[QueueUnit]], min_log_offset: int, expected: tuple[int, ...], tmp_path: Path
) -> None:
    end = ends_of(tmp_path, files, min_log_offset)
    assert told(end) == expected
    assert (end.topic, end.queue_id, end.fault, end.extension) == ("T", 3, "", -1)
    assert end.starts == tuple(number * UNITS_PER_FILE * UNIT_SIZE for number in files)


@pytest.mark.parametrize(
    ("line", "min_log_offset", "first"),
    [(LINE_4_9, 101, 0), (LINE_5_3, 101, 2), (LINE_5_3, 100, 1)],
)
def test_a_queue_whose_messages_have_all_expired_begins_where_its_broker_has_it(
    line: BrokerLine, min_log_offset: int, first: int, tmp_path: Path
) -> None:
    assert told(ends_of(tmp_path, {0: [unit(0), unit(1)]}, min_log_offset, line)) == (first, 2, 100, 191)


def test_the_newest_unit_has_its_address_in_the_extension(tmp_path: Path) -> None:
    assert ends_of(tmp_path, {0: [unit(0), unit(1, encode_ext_address(48))]}).extension == 48


def test_files_that_cannot_be_read_are_a_fault_with_their_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from store.errors import StoreIOError

    def unreadable(*_: object) -> bytes:
        raise StoreIOError("unreadable")

    monkeypatch.setattr(StoreReader, "read_written", unreadable)
    monkeypatch.setattr(StoreReader, "resting_page", lambda *_: None)
    expected = QueueEnd("T", 3, 0, 0, -1, -1, "unreadable", starts=(0, 80))
    assert ends_of(tmp_path, {0: [unit(n) for n in range(4)], 1: [unit(4)]}) == expected
