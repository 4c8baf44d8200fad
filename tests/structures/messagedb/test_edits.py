"""The edits of a message database after a cut at log offset 1000, from what it holds and what the log has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from store.structures.messagedb.keys import (
    INDEX,
    LAST_OFFSET,
    LAST_TIME,
    SCAN_OFFSET,
    TIMELINE,
    TIMER,
    TRANS,
    UNIQUE,
    IndexEntry,
    TimerEntry,
    encode_long,
)
from store.structures.messagedb.recover import _Edits

END = 1000
NO_EDITS: dict[str, dict[bytes, bytes | None]] = {INDEX: {}, TRANS: {}, TIMER: {}}


def unique(log_offset: int) -> IndexEntry:
    return IndexEntry(0, "T", UNIQUE, "", f"U{log_offset}", log_offset, log_offset + 7)


def key(log_offset: int) -> IndexEntry:
    return IndexEntry(0, "T", "K", "k", f"U{log_offset}", log_offset, log_offset + 7)


def timer(delivery_ms: int, log_offset: int) -> TimerEntry:
    return TimerEntry(delivery_ms, f"U{delivery_ms}", 100, log_offset)


def edits(**held: Any) -> _Edits:
    longs: dict[str, dict[bytes, int]] = {INDEX: {}, TRANS: {}, TIMER: {}} | held.pop("longs", {})
    database: Any = SimpleNamespace(
        longs=longs,
        long=lambda family, name: longs[family].get(name, 0),
        **{name: lambda name=name: held.get(name, []) for name in ("index", "halves", "timers")},
    )
    return _Edits(database, END, 5000)


@pytest.mark.parametrize(
    ("entries", "added", "last", "deleted", "told"),
    [
        ([unique(100)], [], 100, [], None),
        ([unique(100), unique(999)], [], 999, [], None),
        ([unique(100), key(200), unique(1000)], [], 1000, [unique(1000)], 100),
        ([unique(300), unique(100), "malformed", key(1000)], [], 1001, [key(1000)], 300),
        ([key(200), unique(1500)], [], 1500, [unique(1500)], 0),
        ([unique(100)], [unique(500), key(600)], 100, [], 500),
        ([unique(100)], [unique(100)], 100, [], None),
    ],
)
def test_the_index_ends_with_its_last_unique_key_before_the_cut(
    entries: list[Any], added: list[IndexEntry], last: int, deleted: list[IndexEntry], told: int | None
) -> None:
    given = edits(index=entries, longs={INDEX: {LAST_OFFSET: last}})
    given.added = added
    expected: dict[bytes, bytes | None] = {one.encode()[0]: None for one in deleted}
    expected |= dict(one.encode() for one in added)
    if told is not None:
        expected |= {LAST_OFFSET: encode_long(told), LAST_TIME: encode_long(told + 7 if told else 0)}
    assert given.finish() == {**NO_EDITS, INDEX: expected}


@pytest.mark.parametrize(
    ("newest", "last", "told"),
    [(-1, 0, None), (-1, 999, None), (-1, 1000, 0), (500, 500, None), (500, 499, 500), (500, 999, None),
     (500, 1000, 500), (500, 1001, 500), (500, 0, 500)],
)  # fmt: skip
def test_the_last_half_message_is_one_before_the_cut(newest: int, last: int, told: int | None) -> None:
    given = edits(longs={TRANS: {LAST_OFFSET: last} if last else {}})
    given.halves.newest = newest
    assert given.finish() == {**NO_EDITS, TRANS: {} if told is None else {LAST_OFFSET: encode_long(told)}}


@pytest.mark.parametrize(
    ("held", "left", "longs", "scan_end", "expected"),
    [
        ([timer(9, 999)], [], {}, None, {}),
        ([timer(9, 1000)], [], {}, None, {timer(9, 0): None}),
        ([timer(9, 1000)], [timer(9, 800)], {TIMELINE: 8}, None, {timer(9, 0): 800}),
        ([timer(9, 1000)], [timer(9, 800)], {TIMELINE: 9}, None, {timer(9, 0): 800}),
        ([timer(9, 1000)], [timer(9, 800)], {TIMELINE: 10}, None, {timer(9, 0): None}),
        ([timer(9, 1000)], [timer(8, 800)], {TIMELINE: 1}, None, {timer(9, 0): None}),
        ([], [], {}, 3, {SCAN_OFFSET: 3}),
        ([], [], {}, 4, {}),
        ([], [], {}, 5, {}),
    ],
)
def test_a_timer_whose_record_is_cut_is_that_of_an_earlier_record_unless_it_fired(
    held: list[TimerEntry], left: list[TimerEntry], longs: dict[bytes, int], scan_end: int | None,
    expected: dict[Any, int | None],
) -> None:  # fmt: skip
    given = edits(timers=held, longs={TIMER: {SCAN_OFFSET: 4, TIMELINE: 1, **longs}})
    given.timers = {(one.delivery_ms, one.unique_key): one for one in left}
    given.scan_end = scan_end
    rows: dict[bytes, bytes | None] = {}
    for one, value in expected.items():
        if isinstance(one, TimerEntry):
            name, data = one._replace(log_offset=value or 0).encode()
            rows[name] = None if value is None else data
        else:
            rows[one] = encode_long(value or 0)
    assert given.finish()[TIMER] == rows


@pytest.mark.parametrize(("waits", "told"), [(8, 8), (9000, 5000)])
def test_a_timeline_begins_at_a_timer_that_is_regained(waits: int, told: int) -> None:
    given = edits(timers=[timer(waits, 1000)], longs={TIMER: {SCAN_OFFSET: 4}})
    given.timers = {(waits, f"U{waits}"): timer(waits, 800)}
    assert given.finish()[TIMER][TIMELINE] == encode_long(told)


def test_without_a_database_there_is_nothing_to_edit() -> None:
    assert _Edits(None, END, 5000).finish() == NO_EDITS
