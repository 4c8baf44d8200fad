"""The check of a DLedger log: headers, index, entries of a newer DLedger, and what the member remembers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.dledger import DLEDGER_HEADER
from store.opened.detect import make_layout
from store.structures.dledger import check as checks
from store.structures.dledger.files import HEADER_SIZE
from tests.structures.dledger.small_member import (
    DATA,
    ENTRY,
    INDEX,
    INDEX_SIZE,
    SIZE,
    STATE,
    Changes,
    Member,
    at,
    entry,
    unit,
)

Row = tuple[str, str, int, int, str]


def findings(member: Member, horizon: int | None = None) -> list[Row]:
    """Check the member; kind, file below the member's folder, offset, count and detail of each finding."""
    layout, fs, files = make_layout(member.root, {}), Filesystem(), StoreReader(str(member.root))
    store = cast(Any, SimpleNamespace(files=files, layout=layout, fs=fs, horizon=horizon))
    return [
        (one.kind, str(Path(one.file).relative_to(member.folder)), one.offset, one.count, one.detail)
        for one in checks.check(store)
    ]


@pytest.fixture
def member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Member:
    monkeypatch.setattr(checks, "INDEX_FILE_SIZE", INDEX_SIZE)
    return Member(tmp_path)


def in_data(number: int, detail: str, count: int = 1) -> Row:
    """The finding of a header."""
    return "dledger-entry", DATA.format(at(number // 3 * 3)), at(number), count, detail


def in_index(index: int, number: int, count: int = 1) -> Row:
    """The finding of a unit, by the index and the place of the entry."""
    detail = f"the queue entry of log entry {index} contradicts the record at log offset {at(number)}"
    return "dledger-index", "index", index, count, detail


def past_the_last(index: int) -> Row:
    return "dledger-index", "index", index, 1, f"a queue entry past the last log entry, {index - 1}: its entry was lost"


def in_state(file: str, detail: str, count: int = 1) -> Row:
    return "dledger-state", file, 0, count, detail


SIZES, BODY, POS = (
    "size is not the record's and 48",
    "the body's size is not the record's",
    "pos is not the entry's log offset",
)
ORDER, TERM = "the index does not follow the entry's before", "the term is below the entry's before"
ZERO = "channel and CRCs are not 0"


@pytest.mark.parametrize(
    ("heads", "rows"),
    [
        ({}, []),
        ({2: {"magic": 9}}, [in_data(2, "the magic is not 1"), in_index(2, 2)]),
        ({0: {"size": ENTRY - 1}}, [in_data(0, SIZES), in_index(0, 0)]),
        ({2: {"size": ENTRY + 1}}, [in_data(2, SIZES), in_index(2, 2)]),
        ({4: {"entry_offset": at(4) + 1}}, [in_data(4, POS), in_index(4, 4)]),
        ({3: {"body_size": SIZE + 1}}, [in_data(3, BODY)]),
        ({1: {"channel": 1}, 2: {"channel": 1}}, [in_data(1, ZERO, 2)]),
        ({1: {"chain_crc": 1}}, [in_data(1, ZERO)]),
        ({4: {"body_crc": -1}}, [in_data(4, ZERO)]),
        ({0: {"entry_index": -1}}, [in_data(1, ORDER)]),
        ({0: {"entry_index": 1}}, [in_data(1, ORDER), in_index(1, 0)]),
        ({1: {"entry_index": 2}}, [in_data(1, ORDER, 2), in_index(2, 1)]),
        ({1: {"entry_index": 0}}, [in_data(1, ORDER, 2), in_index(0, 1)]),
        ({2: {"entry_index": 3}}, [in_data(2, ORDER), in_data(3, ORDER), in_index(3, 2)]),
        ({3: {"entry_index": 2}}, [in_data(3, ORDER, 2), in_index(2, 3)]),
        ({0: {"term": 1}}, [in_data(1, TERM), in_index(0, 0)]),
        ({0: {"term": -1}}, [in_index(0, 0)]),
        ({1: {"term": -1}}, [in_data(1, TERM), in_index(1, 1)]),
        ({2: {"term": 2}}, [in_data(3, TERM), in_index(2, 2)]),
        ({3: {"term": 0}}, [in_data(3, TERM), in_index(3, 3)]),
        ({4: {"term": 0}}, [in_data(4, TERM), in_index(4, 4)]),
        ({4: {"entry_index": 9}}, [in_data(4, ORDER), in_index(9, 4)]),
    ],
)
def test_a_header_agrees_with_its_record_and_follows_the_entry_before(
    heads: Changes, rows: list[Row], member: Member
) -> None:
    member.write(heads, state=dict.fromkeys(STATE))
    found = [row for row in findings(member) if row[0] != "dledger-state"]
    assert [row for row in found if "past the last" not in row[4]] == rows


@pytest.mark.parametrize(
    ("units", "rows"),
    [
        *(({3: {field: 77}}, [in_index(3, 3)]) for field in ("magic", "pos", "size", "index", "term")),
        ({0: {"pos": 1}}, [in_index(0, 0)]),
        ({4: {"pos": 1}}, [in_index(4, 4)]),
        ({1: {"pos": 1}, 2: {"pos": 1}, 4: {"pos": 1}}, [in_index(1, 1, 3)]),
    ],
)
def test_a_unit_of_the_index_has_the_fields_of_its_header(units: Changes, rows: list[Row], member: Member) -> None:
    member.write(units=units)
    assert findings(member) == rows


@pytest.mark.parametrize(("units", "lost"), [(0, [0, 5]), (1, [1, 4]), (3, [3, 2]), (4, [4, 1]), (5, []), (6, [])])
def test_an_index_of_another_length_is_found_and_lacks_the_units_of_entries(
    units: int, lost: list[int], member: Member
) -> None:
    member.write()
    data = (member.folder / INDEX).read_bytes()
    for size in (32 * units, 32 * units + 31):
        member.put(INDEX, data[:size])
        wrong = "wrong-size", INDEX, 0, 1, f"{size} bytes instead of {INDEX_SIZE}"
        assert findings(member) == [*([in_index(lost[0], lost[0], lost[1])] if lost else []), wrong]
    member.put(INDEX, data + b"\0")
    assert findings(member) == [("wrong-size", INDEX, 0, 1, "257 bytes instead of 256")]


def test_entries_past_the_logs_end_are_leftovers_of_a_truncation(member: Member) -> None:
    member.write(state={"checkpoint": "committedIndex=3\nendIndex=3\n"})
    stale = entry(4, {}, place=at(5), index=5)
    member.put(DATA.format(at(3)), entry(3, {}, place=at(3), index=3) + bytes(ENTRY) + stale)
    member.put(INDEX, (member.folder / INDEX).read_bytes()[:128].ljust(INDEX_SIZE, b"\0"))
    assert findings(member) == []


def test_a_lost_index_is_found_where_there_are_entries(member: Member) -> None:
    member.write()
    (member.folder / INDEX).unlink()
    detail = "no index file for the entries up to 4; a start rebuilds it from the entries"
    assert findings(member) == [("dledger-index", "index", 0, 5, detail)]
    for path in (member.folder / "data").iterdir():
        path.unlink()
    assert findings(member) == []


def test_a_unit_past_the_last_entry_is_found(member: Member) -> None:
    member.write()
    data = (member.folder / INDEX).read_bytes()
    for place, rows in [(159, [in_index(4, 4)]), (160, [past_the_last(5)]), (191, [past_the_last(5)]), (192, [])]:
        member.put(INDEX, data[:place] + bytes([data[place] + 1]) + data[place + 1 :])
        assert findings(member) == rows, place
    for path in (member.folder / "data").iterdir():
        path.unlink()
    member.put(INDEX, data)
    assert findings(member) == [past_the_last(0)]


@pytest.mark.parametrize(
    ("magics", "term", "rows"),
    [
        ([], 2, []),
        ([2], 3, []),
        ([3], 3, []),
        ([1], 2, [past_the_last(5)]),
        ([4], 2, [past_the_last(5)]),
        ([2, 3], 4, []),
        ([2, 4], 3, [past_the_last(6)]),
        ([2, 3, 2], 5, []),
    ],
)
def test_entries_of_a_newer_dledger_after_the_last_message_count_with_their_terms(
    magics: Sequence[int], term: int, rows: list[Row], member: Member
) -> None:
    member.write()
    known = (member.folder / INDEX).read_bytes()[:160]
    more = (unit(5 + number, {"magic": magic, "term": 3 + number}) for number, magic in enumerate(magics))
    member.put(INDEX, (known + b"".join(more)).ljust(INDEX_SIZE, b"\0"))
    member.put("currterm", f"currTerm={term}\n")
    assert findings(member) == rows
    member.put("currterm", f"currTerm={term - 1}\n")
    assert findings(member) == [in_state("currterm", f"currTerm={term - 1}, the last entry's term is {term}"), *rows]


@pytest.mark.parametrize(
    ("index", "newer", "is_known"),
    [
        # The index of the message after the entry 0, and magic and index of each entry in between.
        (2, [(2, 1)], True),
        (2, [(3, 1)], True),
        (2, [(2, 0)], False),
        (2, [(2, 2)], False),
        (3, [(2, 1), (3, 2)], True),
        (3, [(2, 1), (3, 1)], False),
        (3, [(2, 1)], False),
        (2, [(2, 1), (3, 2)], False),
        (2, [], False),
    ],
)
def test_entries_of_a_newer_dledger_between_messages_count(
    index: int, newer: list[tuple[int, int]], is_known: bool, member: Member
) -> None:
    data, units = entry(0, {}, place=0, index=0, body=b"of another length"), unit(0, {})
    for magic, between in newer:
        data += DLEDGER_HEADER.pack(magic, HEADER_SIZE, between, 0, len(data), 0, 0, 0, 0)
    member.put(DATA.format(0), (data + entry(1, {}, place=len(data), index=index)).ljust(at(4), b"\0"))
    member.put(INDEX, units.ljust(INDEX_SIZE, b"\0"))
    rows = [row for row in findings(member) if row[0] == "dledger-entry"]
    assert rows == ([] if is_known else [("dledger-entry", DATA.format(0), len(data), 1, ORDER)])


@pytest.mark.parametrize("count", [0, 1, 7, 8, 20])
@pytest.mark.parametrize("moved", [0, 1])
def test_after_any_number_of_entries_of_a_newer_dledger_the_queue_entry_is_compared(
    moved: int, count: int, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, units = entry(0, {}, place=0, index=0), unit(0, {})
    for index in range(1, count + 1):
        units += unit(index, {"magic": 2, "pos": len(data), "size": HEADER_SIZE, "term": 0})
        data += DLEDGER_HEADER.pack(2, HEADER_SIZE, index, 0, len(data), 0, 0, 0, 0)
    units += unit(count + 1, {"pos": len(data) + moved, "term": 0})
    monkeypatch.setattr(checks, "INDEX_FILE_SIZE", len(units))
    member.put(DATA.format(0), (data + entry(1, {}, place=len(data), index=count + 1)).ljust(at(20), b"\0"))
    member.put(INDEX, units)
    told = f"the queue entry of log entry {count + 1} contradicts the record at log offset {len(data)}"
    found = [row for row in findings(member) if row[0] != "dledger-state"]
    assert found == ([("dledger-index", "index", count + 1, 1, told)] if moved else [])


LAST, FOREIGN = "the last entry is 4", "a line that no member writes:"
UNSHOWN = "no committedIndex: nothing is shown to readers until the next message is put"


@pytest.mark.parametrize(
    ("checkpoint", "rows"),
    [
        ("committedIndex=4\nendIndex=4\n", []),
        ("committedIndex=3\nendIndex=4\n", []),
        ("committedIndex=3\nendIndex=3\n", []),
        ("committedIndex=0\nendIndex=0\n", []),
        ("committedIndex=4\nendIndex=3\n", [in_state("checkpoint", f"endIndex=3, committedIndex=4, {LAST}")]),
        ("committedIndex=3\nendIndex=5\n", [in_state("checkpoint", f"endIndex=5, committedIndex=3, {LAST}")]),
        ("committedIndex=3\nendIndex=7\n", [in_state("checkpoint", f"endIndex=7, committedIndex=3, {LAST}", 3)]),
        (
            "committedIndex=7\nendIndex=4\n",
            [in_state("checkpoint", f"committedIndex=7, {LAST}: 3 promised ones are lost", 3)],
        ),
        (
            "committedIndex=5\nendIndex=5\n",
            [in_state("checkpoint", f"committedIndex=5, {LAST}: 1 promised ones are lost", 2)],
        ),
        ("committedIndex=4\n", [in_state("checkpoint", "no endIndex, which is written with every committedIndex")]),
        (
            "endIndex=4\n",
            [in_state("checkpoint", UNSHOWN)],
        ),
        ("endIndex=-1\n", [in_state("checkpoint", UNSHOWN)]),
        (
            "endIndex=-2\n",
            [in_state("checkpoint", f"endIndex=-2, committedIndex=None, {LAST}", 2)],
        ),
        ("committedIndex=4\nendIndex=4\nmore=1\n", [in_state("checkpoint", f"{FOREIGN} 'more=1'")]),
        (
            "committedIndex=4\nendIndex=4\nendIndex\n",
            [in_state("checkpoint", f"{FOREIGN} 'endIndex'")],
        ),
        (
            None,
            [in_state("checkpoint", UNSHOWN)],
        ),
    ],
)
def test_the_checkpoint_names_entries_that_are_there(checkpoint: str | None, rows: list[Row], member: Member) -> None:
    member.write(state={"checkpoint": checkpoint})
    assert findings(member) == rows


@pytest.mark.parametrize(
    ("term", "rows"),
    [
        ("currTerm=2\nvoteLeader=n0\n", []),
        ("currTerm=3\n", []),
        ("currTerm=2\nvoteLeader=\n", []),
        ("currTerm=1\n", [in_state("currterm", "currTerm=1, the last entry's term is 2")]),
        (None, [in_state("currterm", "no currTerm: the member begins at term 0 and votes once more")]),
        ("currTerm=2\nvote=n0\n", [in_state("currterm", f"{FOREIGN} 'vote=n0'")]),
        (
            "currTerm=x\n",
            [in_state("currterm", f"{FOREIGN} 'currTerm=x'", 2)],
        ),
    ],
)
def test_the_term_is_that_of_the_last_entry_or_above(term: str | None, rows: list[Row], member: Member) -> None:
    member.write(state={"currterm": term})
    assert findings(member) == rows


def test_a_member_without_entries_has_no_state_to_compare(member: Member) -> None:
    member.put("data/.keep", None)
    member.put("checkpoint", "committedIndex=9\n")
    member.put("currterm", "x\n")
    assert findings(member) == [in_state("currterm", f"{FOREIGN} 'x'")]


@pytest.mark.parametrize(
    ("horizon", "count"),
    [(0, 0), (HEADER_SIZE, 0), (HEADER_SIZE + 1, 1), (at(1) + HEADER_SIZE, 1), (at(3) + HEADER_SIZE, 3), (1 << 40, 3)],
)
def test_entries_past_the_horizon_and_what_the_member_remembers_are_left_to_its_writer(
    horizon: int, count: int, member: Member
) -> None:
    member.write({number: {"channel": 1} for number in range(3)}, state={"checkpoint": "committedIndex=9\n"})
    member.put(INDEX, (member.folder / INDEX).read_bytes()[:160] + b"\1" * 96)
    assert findings(member, horizon) == ([in_data(0, ZERO, count)] if count else [])
