"""The slot that a rebuild gives a timer message, by its time, the read time and the roll window."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.formats.java import string_hash
from store.formats.timer import TIMER_BLANK, TIMER_BLANK_MAGIC
from store.layout import StoreLayout
from store.structures.timer import build
from store.structures.timer.build import PLAIN, _lacks_metrics, _metrics_of, _Plan, _read_time, _Unit, _Writer
from store.structures.timer.files import (
    BLANK_SIZE,
    DELETE,
    METRICS,
    NO_FILES,
    NO_POSITION,
    ROLL,
    SLOT_COUNT,
    SLOT_DTYPE,
    UNIT_DTYPE,
    UNIT_SIZE,
    TimerCheckpoint,
)
from store.structures.timer.message import TimerMessage, TimerState

READ_MS = 1_700_000_000_000
WINDOW = 6
MS = 1000
PENDING, ROLLED, DELIVERED, DELETED, DELETE_OF = (
    TimerState.PENDING, TimerState.ROLLED, TimerState.DELIVERED, TimerState.DELETED, TimerState.DELETE,
)  # fmt: skip


def unit(
    slot_ms: int, write_ms: int = 0, magic: int = PLAIN, topic: str | None = "T", state: TimerState = PENDING
) -> _Unit:
    return _Unit(slot_ms, magic, write_ms, TimerMessage(state, 0, 0, 0, topic))


@pytest.mark.parametrize(
    ("slot_ms", "write_ms", "is_done", "state", "placed"),
    [
        pytest.param(-1, 0, False, PENDING, (0, PLAIN), id="overdue: it fires next"),
        pytest.param(-1, 0, True, PENDING, (-1, PLAIN), id="done: it stays in its slot"),
        pytest.param(0, 0, True, PENDING, (0, PLAIN), id="at the read time"),
        pytest.param(5999, 0, False, PENDING, (5999, PLAIN), id="within the window"),
        pytest.param(6000, 0, False, PENDING, (3000, PLAIN | ROLL), id="at the window: half of it"),
        pytest.param(7999, 0, False, PENDING, (3000, PLAIN | ROLL), id="within a third of it behind: half of it"),
        pytest.param(8000, 0, False, PENDING, (6000, PLAIN | ROLL), id="a third of it behind: all of it"),
        pytest.param(60_000, 0, False, PENDING, (6000, PLAIN | ROLL), id="far behind"),
        pytest.param(8000, 2001, False, PENDING, (8000, PLAIN), id="within the window of a later write"),
        pytest.param(8001, 2001, False, PENDING, (5000, PLAIN | ROLL), id="at the window of a later write"),
        pytest.param(60_000, -5000, False, PENDING, (6000, PLAIN | ROLL), id="written before the read time"),
        pytest.param(60_000, 999, False, PENDING, (6000, PLAIN | ROLL), id="a slot's time is whole seconds"),
        pytest.param(60_000, 1000, False, PENDING, (7000, PLAIN | ROLL), id="a second later"),
        pytest.param(60_000, 0, False, ROLLED, (-1000, PLAIN | ROLL), id="it had rolled: in a slot that has fired"),
        pytest.param(-2000, 0, False, ROLLED, (-2000, PLAIN | ROLL), id="it had rolled, and was due earlier"),
        pytest.param(-1, 0, True, DELIVERED, (-1, PLAIN), id="delivered: it stays in its slot"),
        pytest.param(0, 0, True, DELIVERED, (-1000, PLAIN | ROLL), id="copied before it was due"),
    ],
)
def test_a_message_gets_the_slot_of_its_time_or_of_its_next_roll(
    slot_ms: int, write_ms: int, is_done: bool, state: TimerState, placed: tuple[int, int]
) -> None:
    one = unit(READ_MS + slot_ms, READ_MS + write_ms, state=state)
    plan = _Plan(cast(Any, None), replace(NO_FILES), WINDOW)
    plan._place(one, READ_MS, is_done=is_done)
    assert (one.slot_ms - READ_MS, one.magic) == placed


@pytest.mark.parametrize(
    ("of_check", "due", "copied", "state", "found"),
    [
        pytest.param(0, -1000, 0, DELIVERED, 0, id="delivered before the read time"),
        pytest.param(0, 0, 0, DELIVERED, 1000, id="delivered at the read time"),
        pytest.param(0, 7000, 7000, DELIVERED, 8000, id="delivered later"),
        pytest.param(0, 7000, 6999, DELIVERED, 0, id="copied before it was due"),
        pytest.param(0, 7000, 7000, PENDING, 0, id="not delivered"),
        pytest.param(None, 7000, 7000, PENDING, 5000, id="no timercheck: the newest timer message"),
        pytest.param(None, 7000, 7000, DELIVERED, 8000, id="no timercheck, delivered later"),
    ],
)
def test_the_read_time_is_past_each_slot_that_has_fired(
    of_check: int | None, due: int, copied: int, state: TimerState, found: int
) -> None:
    message = TimerMessage(state, 0, 0, 0, deliver_timestamp_ms=READ_MS + due, delivered_log_offset=55)
    times = {55: SimpleNamespace(store_timestamp_ms=READ_MS + copied)}
    opened: Any = SimpleNamespace(
        checkpoint=SimpleNamespace(physic_ms=READ_MS), log=SimpleNamespace(lookup=times.__getitem__)
    )
    checkpoint = TimerCheckpoint(READ_MS + of_check) if of_check is not None else None
    units = [_Unit(0, PLAIN, READ_MS + 5999, message)]
    assert _read_time(opened, replace(NO_FILES, checkpoint=checkpoint), units) - READ_MS == found


def test_pending_messages_are_counted_by_topic_and_a_delete_is_one_less() -> None:
    units = [
        unit(READ_MS - 1),
        unit(READ_MS),
        unit(READ_MS + 1),
        unit(READ_MS, magic=PLAIN | DELETE),
        unit(READ_MS, topic="S"),
        unit(READ_MS, topic="\u00e9"),
        unit(READ_MS, topic=None),
    ]
    counts = ",".join(f'"{topic}":{{"count":1,"timeStamp":{READ_MS}}}' for topic in ("", "S", "T", "\u00e9"))
    version = f'{{"counter":1,"stateVersion":0,"timestamp":{READ_MS}}}'
    assert _metrics_of(units, READ_MS).decode() == f'{{"dataVersion":{version},"timingCount":{{{counts}}}}}'


def timer(key: str, *, due: int = -1, state: TimerState = PENDING, deletes: str | None = None) -> TimerMessage:
    """A message of topic T, due at READ_MS + `due`."""
    return TimerMessage(
        state, 0, 0, 0, "T", uniq_key=key, deliver_timestamp_ms=READ_MS + due, deletes=deletes,
        store_timestamp_ms=READ_MS - 10,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "placed"),
    [
        pytest.param([timer("A")], [(0, PLAIN)], id="overdue"),
        pytest.param([timer("A", state=DELIVERED)], [(-1, PLAIN)], id="delivered"),
        pytest.param([timer("A"), timer("A", state=DELIVERED)], [(-1, PLAIN)] * 2, id="another copy was delivered"),
        pytest.param([timer("A"), timer("B", state=DELIVERED)], [(0, PLAIN), (-1, PLAIN)], id="another key's was"),
        pytest.param([timer("A", due=-2), timer("A", state=DELIVERED)], [(0, PLAIN), (-1, PLAIN)], id="another time's"),
        pytest.param([timer("A", state=DELETED)], [(-1, PLAIN)], id="deleted"),
        pytest.param([timer("D", state=DELETE_OF, deletes="T+A")], [(-1, PLAIN | DELETE)], id="a delete"),
        pytest.param([timer("A", due=9, state=ROLLED)], [(-MS, PLAIN | ROLL)], id="rolled"),
        pytest.param([timer("A", due=-9 * MS, state=ROLLED)], [(-9 * MS, PLAIN | ROLL)], id="rolled long ago"),
        pytest.param(
            [timer("A", due=9, state=ROLLED, deletes="T+B")], [(-MS, PLAIN | ROLL | DELETE)], id="a rolled delete"
        ),
        pytest.param([timer("A", due=9)], [(9, PLAIN)], id="not due"),
        pytest.param([timer("A", due=-READ_MS - 1)], [], id="without a time"),
        pytest.param([timer("A", due=-READ_MS)], [(0, PLAIN)], id="due in 1970"),
    ],
)  # fmt: skip
def test_a_message_that_was_delivered_deleted_or_rolled_fires_no_more(
    messages: list[TimerMessage], placed: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "messages_by_log", lambda *_: messages)
    monkeypatch.setattr(build, "_read_time", lambda *_: READ_MS)
    units = _Plan(cast(Any, None), replace(NO_FILES), WINDOW).units(cast(Any, None))
    assert [(one.slot_ms - READ_MS, one.magic) for one in units] == placed
    assert {one.write_ms for one in units} <= {READ_MS - 10}


def writer(file_size: int | None = None) -> _Writer:
    config = StoreConfig().with_settings({"mappedFileSizeTimerLog": file_size} if file_size else {})
    return _Writer(cast(Any, None), config, NO_FILES, cast(Any, None))


@pytest.mark.parametrize(
    ("file_size", "row", "position"),
    [
        (None, 1, UNIT_SIZE),
        (None, (104_857_600 - BLANK_SIZE) // UNIT_SIZE, 104_857_600),
        (200, 2, 2 * UNIT_SIZE),
        (200, 3, 200),
        (200, 7, 400 + UNIT_SIZE),
        (2 * UNIT_SIZE + BLANK_SIZE, 1, UNIT_SIZE),
        (2 * UNIT_SIZE + BLANK_SIZE - 1, 1, 2 * UNIT_SIZE + BLANK_SIZE - 1),
        (1, 1, 1),
    ],
)
def test_units_fill_files_that_have_room_for_a_blank_behind(file_size: int | None, row: int, position: int) -> None:
    assert writer(file_size)._position(row) == position


def test_a_slot_counts_its_units_and_names_the_first_and_the_newest() -> None:
    wheel, one = np.zeros(SLOT_COUNT, SLOT_DTYPE), writer()
    added = [
        one._add(wheel, unit(READ_MS + slot_ms, READ_MS - 7, magic), at)
        for slot_ms, magic, at in ((0, PLAIN, 0), (999, PLAIN, 52), (1000, PLAIN, 104), (0, PLAIN | DELETE, 156))
    ]
    time = READ_MS // MS
    assert [(fields[0], *fields[5:]) for fields in added] == [(UNIT_SIZE, 0, 0, string_hash("T"), 0)] * 4
    assert [fields[1:5] for fields in added] == [
        (NO_POSITION, PLAIN, READ_MS - 7, 7), (0, PLAIN, READ_MS - 7, 7), (NO_POSITION, PLAIN, READ_MS - 7, MS + 7),
        (52, PLAIN | DELETE, READ_MS - 7, 7),
    ]  # fmt: skip
    assert wheel[time % SLOT_COUNT].item() == (time, 0, 156, 1, 0)
    assert wheel[(time + 1) % SLOT_COUNT].item() == (time + 1, 104, 104, 1, 0)
    later = one._add(wheel, unit(READ_MS + SLOT_COUNT * MS, READ_MS), 208)
    assert (later[1], wheel[time % SLOT_COUNT].item()) == (NO_POSITION, (time + SLOT_COUNT, 208, 208, 1, 0))


@pytest.mark.parametrize(
    ("data", "lacks"), [(None, True), (b"", True), (b"{", True), (_metrics_of([unit(READ_MS)], READ_MS), False)]
)
def test_metrics_are_made_where_a_broker_would_have_none(data: bytes | None, lacks: bool, tmp_path: Path) -> None:
    (tmp_path / METRICS).parent.mkdir(parents=True)
    if data is not None:
        (tmp_path / METRICS).write_bytes(data)
    assert _lacks_metrics(cast(Any, SimpleNamespace(layout=StoreLayout(tmp_path), fs=Filesystem()))) is lacks


@pytest.mark.parametrize(
    ("units", "number", "has_blank"),
    [(2, 0, False), (3, 0, False), (4, 0, True), (4, 1, False), (6, 0, True), (6, 1, False), (7, 1, True)],
)
def test_a_full_file_before_the_last_unit_ends_in_a_blank(
    units: int, number: int, has_blank: bool, tmp_path: Path
) -> None:
    change = SimpleNamespace(staging=tmp_path, actions=[])
    opened = SimpleNamespace(fs=Filesystem(), layout=StoreLayout(tmp_path / "store"))
    config = StoreConfig().with_settings({"mappedFileSizeTimerLog": 200})
    one = _Writer(cast(Any, opened), config, NO_FILES, cast(Any, change))
    name = one._write_file(np.zeros(units, UNIT_DTYPE), number)
    blank = TIMER_BLANK.pack(200 - 3 * UNIT_SIZE, 0, TIMER_BLANK_MAGIC)
    data = (tmp_path / "timerlog" / name).read_bytes()
    assert data == bytes(3 * UNIT_SIZE) + (blank if has_blank else b"").ljust(200 - 3 * UNIT_SIZE, b"\0")
