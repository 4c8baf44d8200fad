"""The choice of entries that dump shows: each bound with what is below, at and above it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import typer

from rmqctl.commands import dump as dump_command
from rmqctl.commands.dump import Kind, _Dump
from rmqctl.dumping import EntryFilter, EntryRows, NewEntries, files_of, folder_of, split_target
from rmqctl.output import Format
from store.errors import NotAStore
from store.structures.entry import Entry, EntryBlock, Field
from tests.support.sessions import give, session

MESSAGE = SimpleNamespace(topic="T", queue_id=3, uniq_key="U", keys=["a", "b"], store_timestamp_ms=100)
MESSAGES_OF_3 = {"topic": "T", "queue_id": 3}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, True),
        ({"from_number": 49}, True),
        ({"from_number": 50}, True),
        ({"from_number": 51}, False),
        ({"to_number": 49}, False),
        ({"to_number": 50}, True),
        ({"to_number": 51}, True),
        ({"from_number": 0, "to_number": 0}, False),
        ({"from_ms": 99}, True),
        ({"from_ms": 100}, True),
        ({"from_ms": 101}, False),
        ({"to_ms": 99}, False),
        ({"to_ms": 100}, True),
        ({"to_ms": 101}, True),
        ({"topic": "T"}, True),
        ({"topic": "t"}, False),
        (MESSAGES_OF_3, True),
        ({**MESSAGES_OF_3, "queue_id": 0}, False),
        ({"key": "U"}, True),
        ({"key": "a"}, True),
        ({"key": "b"}, True),
        ({"key": "c"}, False),
        ({"tags": SimpleNamespace(matches=lambda one: one is MESSAGE)}, True),
        ({"tags": SimpleNamespace(matches=lambda one: one is not MESSAGE)}, False),
    ],
)
def test_a_record_is_wanted_within_all_bounds(given: dict[str, Any], wanted: bool) -> None:
    entry: Any = SimpleNamespace(number=50, message=MESSAGE)
    assert EntryFilter(**given).wants(entry) is wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [({}, True), ({"queue_id": 3}, True), ({"from_number": 51}, False), ({"topic": "T"}, False), ({"to_ms": 9}, False)],
)
def test_what_is_no_record_is_wanted_where_nothing_of_messages_is_asked(given: dict[str, Any], wanted: bool) -> None:
    entry: Any = SimpleNamespace(number=50, message=None)
    assert EntryFilter(**given).wants(entry) is wanted


@pytest.mark.parametrize(
    ("given", "raw", "may"),
    [
        ({}, b"", True),
        ({"topic": "T"}, b"xTx", True),
        ({"topic": "T"}, b"x", False),
        ({"topic": "T", "key": "ä"}, "Tä".encode(), True),
        ({"topic": "T", "key": "ä"}, b"T", False),
    ],
)
def test_a_record_whose_bytes_lack_a_text_is_not_decoded(given: dict[str, Any], raw: bytes, may: bool) -> None:
    assert EntryFilter(**given).may_want(raw) is may


@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        ({}, [4, 5, 6]),
        ({"from_number": 5}, [5, 6]),
        ({"to_number": 5}, [4, 5]),
        ({"from_number": 5, "to_number": 5}, [5]),
        ({"from_number": 7}, []),
        ({"to_number": 0}, []),
    ],
)
def test_units_are_wanted_from_one_number_to_another(given: dict[str, Any], numbers: list[int]) -> None:
    all_numbers = np.array([4, 5, 6])
    block: Any = SimpleNamespace(numbers=all_numbers, select=lambda rows: all_numbers[rows])
    assert list(EntryFilter(**given).part_of(block)) == numbers  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("target", "place"),
    [(None, (None, None)), ("", (None, None)), ("T", ("T", None)), ("T/", ("T", None)), ("T/0", ("T", 0))],
)
def test_a_target_is_a_topic_with_or_without_a_queue(target: str | None, place: tuple[str | None, int | None]) -> None:
    assert split_target(target) == place


@pytest.mark.parametrize("target", ["T/x", "T/-1", "T/1/2"])
def test_a_target_of_another_form_is_refused(target: str) -> None:
    with pytest.raises(NotAStore, match=f"^{target}: neither a file nor TOPIC/QUEUE$"):
        split_target(target)


@pytest.mark.parametrize(
    ("size", "wide", "for_programs", "shown"),
    [
        (4, False, False, "00010203"),
        (8, False, False, "00010203 04050607"),
        (9, False, False, "00010203 04050607…"),
        (9, True, False, "00 01020304 05060708"),
        (9, False, True, "000102030405060708"),
    ],
)
def test_people_see_eight_bytes_of_a_field(size: int, wide: bool, for_programs: bool, shown: str) -> None:
    session: Any = SimpleNamespace(
        format=SimpleNamespace(is_for_programs=for_programs), options=SimpleNamespace(wide=wide)
    )
    rows: Any = SimpleNamespace()
    assert EntryRows(session, rows, rows, None, None)._hex(bytes(range(size))) == shown
    assert [EntryRows(session, rows, rows, where, None).is_filtered for where in (None, "x")] == [False, True]


def unit(number: int, size: int = 1) -> Entry:
    return Entry("unit", "f", number, 0, bytes(size))


def fault(number: int) -> Entry:
    return Entry("damage", "f", number, 0, is_fault=True)


def torn(number: int) -> Entry:
    return Entry("record", "f", number, 0, b"x", message=SimpleNamespace(is_crc_right=False))


BLANK, EMPTY = Entry("blank", "f", 2, 0), Entry("empty", "f", 9, 0)


@pytest.mark.parametrize(
    ("of_log", "looks", "shown"),
    [
        pytest.param(False, [[unit(0), unit(1)], [unit(2)]], [[0, 1], [2]], id="one after the other"),
        pytest.param(False, [[fault(0)], [fault(0)], [fault(0)]], [[], [0], []], id="damage at the begin"),
        pytest.param(False, [[unit(0), unit(2)], [unit(1), unit(2)]], [[0], [1, 2]], id="a gap that is filled"),
        pytest.param(False, [[unit(0), unit(2)], [unit(2), unit(3)]], [[0], [2, 3]], id="a gap that stays"),
        pytest.param(False, [[unit(0)], [unit(0), unit(1)]], [[0], [0, 1]], id="an earlier one is no gap"),
        pytest.param(True, [[unit(0, 5), unit(5, 5)], [unit(10, 5)]], [[0, 5], [10]], id="records by their sizes"),
        pytest.param(True, [[unit(0, 5), unit(6, 5)], [unit(6, 5)]], [[0], [6]], id="a byte between records"),
        pytest.param(False, [[unit(0), BLANK, unit(9)]], [[0, 9]], id="behind a blank anywhere"),
        pytest.param(False, [[unit(0), EMPTY, unit(9)]], [[0]], id="behind an empty one not"),
        pytest.param(False, [[fault(3)], [fault(3)], [fault(3), unit(7)]], [[], [3], [7]], id="damage is said once"),
        pytest.param(False, [[fault(3)], [unit(3)]], [[], [3]], id="damage that was half a record"),
        pytest.param(False, [[fault(3)], [fault(4)], [fault(4)]], [[], [], [4]], id="damage farther on"),
        pytest.param(True, [[torn(3)], [torn(3)]], [[], [3]], id="a record whose CRC is wrong"),
    ],
)
def test_a_followed_file_gives_each_entry_once_and_what_is_in_doubt_at_the_second_look(
    of_log: bool, looks: list[list[Entry]], shown: list[list[int]]
) -> None:
    new = NewEntries(of_log=of_log)
    assert [[entry.number for entry in new.settled(look)] for look in looks] == shown


def rows_with(limit: int | None) -> tuple[EntryRows, list[str]]:
    notes: list[str] = []
    given: Any = SimpleNamespace()
    rows = EntryRows(cast(Any, SimpleNamespace(note=notes.append)), given, given, None, limit)
    cast(Any, rows)._row = lambda entry, messages: {"number": entry.number}
    return rows, notes


def block(*numbers: int) -> EntryBlock:
    return EntryBlock(np.array(numbers, np.int64), {"number": np.array(numbers, np.int64)})


@pytest.mark.parametrize(
    ("limit", "pieces", "sizes", "is_cut"),
    [
        (None, [unit(0), block(1, 2, 3)], [1, 3], False),
        (4, [unit(0), block(1, 2, 3)], [1, 3], False),
        (3, [unit(0), block(1, 2, 3)], [1, 2], True),
        (1, [unit(0), block(1, 2, 3)], [1], True),
        (1, [unit(0), block()], [1], False),
        (1, [unit(0), block(), fault(1)], [1], True),
        (2, [block(), unit(0), fault(1)], [1, 1], False),
        (3, [block(1, 2, 3)], [3], False),
        (2, [block(1, 2, 3), unit(4)], [2], True),
    ],
)
def test_blocks_end_with_the_limit_and_a_note_where_more_follow(
    limit: int | None, pieces: list[Any], sizes: list[int], is_cut: bool
) -> None:
    rows, notes = rows_with(limit)
    found = list(rows.blocks(pieces))
    assert [1 if isinstance(one, dict) else one.count for one in found] == sizes
    assert rows.count == sum(sizes)
    verb = "entry is" if limit == 1 else "entries are"
    assert notes == ([f"only the first {limit} {verb} shown; --limit 0 shows all"] if is_cut else [])
    assert rows.fault_count == sum(isinstance(one, dict) and one["number"] == 1 for one in found)


@pytest.mark.parametrize(("limit", "count", "is_cut"), [(None, 3, False), (4, 3, False), (3, 3, False), (2, 2, True)])
def test_entries_end_with_the_limit_and_a_note_where_more_follow(limit: int | None, count: int, is_cut: bool) -> None:
    rows, notes = rows_with(limit)
    assert list(rows.rows([unit(0), unit(1), unit(2)])) == [{"number": number} for number in range(count)]
    assert (rows.count, len(notes)) == (count, int(is_cut))


@pytest.mark.parametrize(
    ("wanted", "after", "first", "is_exact"),
    [(None, None, 0, False), (7, None, 7, False), (7, 9, 9, True), (7, 0, 0, True)],
)
def test_what_follows_begins_at_its_entry_itself(
    wanted: int | None, after: int | None, first: int, is_exact: bool
) -> None:
    dump = _Dump(cast(Any, None), Kind.COMMITLOG, EntryFilter(wanted), None, with_fields=True)
    asked = dump.asked(after)
    assert (asked.first, asked.is_exact) == (first, is_exact)


class Ended(Exception):
    """The pause between two looks, which ends a test."""


@pytest.mark.parametrize(
    ("kind", "paths", "refused"),
    [
        (Kind.CONSUMEQUEUE, ["T/0/a", "T/0/b"], None),
        (Kind.CONSUMEQUEUE, [], None),
        (Kind.CONSUMEQUEUE, ["T/0/a", "T/1/a"], "--follow follows one queue: name it TOPIC/QUEUE"),
        (Kind.COMMITLOG, ["a/1", "b/2"], None),
    ],
)
def test_one_queue_is_followed_and_a_log_in_several_folders(
    kind: Kind, paths: list[str], refused: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(seconds: float) -> None:
        raise Ended

    monkeypatch.setattr(dump_command, "folder_of", lambda *given: None)
    monkeypatch.setattr(dump_command, "time", SimpleNamespace(sleep=end))
    files = [SimpleNamespace(file=SimpleNamespace(path=path)) for path in paths]
    dump: Any = SimpleNamespace(
        kind=kind, files=lambda asked: files, asked=lambda: None, entries=lambda after: iter(())
    )
    rows: Any = SimpleNamespace(chosen=lambda entries: iter(()))
    messages: Any = SimpleNamespace(warn_of_undecoded=lambda: None)
    with pytest.raises(typer.BadParameter if refused else Ended, match=refused):
        dump_command._follow(session(), dump, rows, messages)


@pytest.mark.parametrize(
    ("target", "place", "expected"),
    [
        (None, "the store", ["of the store"]),
        ("T/0", "the store", ["of the store"]),
        ("file", "file", ["of the file"]),
        (None, "nothing", "no commitlog; name a file to dump"),
        ("T/0", "nothing", "no commitlog of T/0, and there is no such file"),
    ],
)
def test_a_target_is_a_file_or_a_part_of_the_store(
    target: str | None, place: str, expected: list[str] | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    one = session()
    give(one, store=str(tmp_path))
    opened = list[dict[str, bool]]()
    monkeypatch.setattr(one.store, "open_reader", lambda **how: opened.append(how))
    of_store = ["of the store"] if place == "the store" else []
    monkeypatch.setattr("store.verbs.dumped_at", lambda kind, path: ["of the file"])
    monkeypatch.setattr("store.verbs.dumped_files", lambda kind, reader, asked: of_store)
    monkeypatch.setattr("store.verbs.dumped_folder_at", lambda kind, path: "folder of the file")
    monkeypatch.setattr("store.verbs.dumped_folder", lambda kind, layout, fs: f"folder of {layout.root.name}")
    asked: Any = object()
    if isinstance(expected, str):
        with pytest.raises(NotAStore) as refused:
            files_of(one, "commitlog", target, asked)
        assert (refused.value.reason, refused.value.file) == (f"the store has {expected}", tmp_path)
    else:
        assert files_of(one, "commitlog", target, asked) == expected
    assert opened == ([] if place == "file" else [{"as_it_is": True, "or_segment": True}])
    assert folder_of(one, "commitlog", target) == f"folder of {'the file' if place == 'file' else tmp_path.name}"


FIELDS = (Field("a_ms", 1, 8, 1000), Field("b", 9, 3, b"\x01\x02\x03"), Field("c", 12, 0, "x" * 30))
WITH_FIELDS = Entry("unit", "f", 7, 100, bytes(range(12)), FIELDS, {"d": 5})
RECORD = Entry("record", "f", 7, 100, message=cast(Any, SimpleNamespace(topic="T")))


def rows_of(form: Format) -> EntryRows:
    one: Any = SimpleNamespace(format=form, options=SimpleNamespace(wide=False))
    messages, unshown = (
        cast(Any, SimpleNamespace(names=("topic", name), row=lambda message: {"topic": message.topic}))
        for name in ("shown", "unshown")
    )
    return EntryRows(one, messages, unshown, None, None)


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        (Format.JSON, [(1000, "0102030405060708"), ("010203", "090a0b"), ("x" * 30, "")]),
        (
            Format.TABLE,
            [("1970-01-01T00:00:01.000Z", "01020304 05060708"), ("010203", "090a0b"), ("x" * 23 + "…", "")],
        ),
    ],
)
def test_a_field_has_its_place_in_the_file_its_value_and_its_bytes(
    form: Format, shown: list[tuple[object, str]]
) -> None:
    rows = list(rows_of(form).field_rows([WITH_FIELDS]))
    assert [(row["position"], row["size"], row["field"], row["file"]) for row in rows] == [
        (101, 8, "a_ms", "f"), (109, 3, "b", "f"), (112, 0, "c", "f"),
    ]  # fmt: skip
    assert [(row["value"], row["hex"]) for row in rows] == shown


@pytest.mark.parametrize(
    ("entry", "values"),
    [
        (WITH_FIELDS, {"kind": "unit", "a_ms": 1000, "b": "010203", "c": "x" * 30, "d": 5}),
        (RECORD, {"kind": "record", "topic": "T"}),
        *(
            (Entry(kind, "f", 7, 100, extra={"d": 5}), {"kind": kind, "log_offset": 7, "d": 5})
            for kind in ("blank", "damage", "end")
        ),
    ],
)
def test_a_row_has_the_values_of_an_entry_or_a_message(entry: Entry, values: dict[str, object]) -> None:
    rows = rows_of(Format.JSON)
    assert list(rows.rows([entry])) == [{"file": "f", "position": 100, **values}]
    assert list(rows.blocks([entry])) == [{"file": "f", "position": 100, **values}]


def test_the_heading_of_csv_has_each_name_once() -> None:
    empty = EntryBlock(np.array([], np.int64), {"z": 1})
    pieces = [WITH_FIELDS, RECORD, EntryBlock(np.array([1], np.int64), {"y": 1, "d": 2}), empty]
    assert rows_of(Format.CSV).names(pieces) == (
        "kind", "file", "position", "a_ms", "b", "c", "d", "topic", "unshown", "y",
    )  # fmt: skip
    assert [rows_of(form).is_csv for form in (Format.CSV, Format.JSONL)] == [True, False]
