"""Values, notes and their order, by boundary tables: each is made by one small function of a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rmqctl.commands import bundle, flush_bench, info, serve
from rmqctl.context import Session
from rmqctl.exit_codes import USAGE
from rmqctl.layout import Column
from rmqctl.programs import json_for
from rmqctl.queue_reading import QueueReading
from rmqctl.report import contents
from rmqctl.result import Result
from rmqctl.schema import _first_line
from rmqctl.times import LATEST_MS, parse_time
from store.broker_line import LINE_4_9
from store.errors import DamagedRecord
from store.layout import StoreLayout
from store.verbs.info import LogInfo, StoreInfo
from store.verbs.recover.lost import LostQueue
from tests.cli.running import rmqctl
from tests.support.sessions import give, said, session
from tests.support.stores import make_store


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("253402300799999", 253_402_300_799_999),
        ("253402300800000", None),
        ("-1s", 0),
        ("-999ms", 1),
        ("-1001ms", None),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ("1969-12-31T23:59:59Z", None),
    ],
)
def test_a_time_is_between_1970_and_the_end_of_9999(text: str, time_ms: int | None) -> None:
    if time_ms is None:
        with pytest.raises(ValueError, match="is out of range"):
            parse_time(text, 1000)
    else:
        assert parse_time(text, 1000) == time_ms
    assert LATEST_MS == 253_402_300_799_999


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8", '"é"'),
        ("UTF8", '"é"'),
        ("utf_8", '"é"'),
        (None, '"é"'),
        ("ascii", '"\\u00e9"'),
        ("utf-16", '"\\u00e9"'),
    ],
)
def test_json_is_escaped_for_a_stream_that_is_not_utf_8(encoding: str | None, text: str) -> None:
    assert json_for(cast(Any, SimpleNamespace(encoding=encoding)), "é") == text
    assert json_for(cast(Any, SimpleNamespace()), "é") == '"é"'


def test_unreadable_bytes_of_a_bundle_are_noted_by_file() -> None:
    one = session()
    written = SimpleNamespace(kept_names=["b", "a"], unreadable={"y": [(1, 2)], "x": [(3, 4), (5, 6)]})
    assert list(bundle._notes(one, cast(Any, written))) == [
        "x: can't read bytes 3 to 4",
        "x: can't read bytes 5 to 6",
        "y: can't read bytes 1 to 2",
    ]
    stays = "note: the name {} stays: no other one has its length and hash code\n"
    assert said(one) == stays.format("b") + stays.format("a")


def test_what_serves_a_store_is_listed_by_name() -> None:
    layout = SimpleNamespace(root="r")
    opened = SimpleNamespace(layout=layout, services={"reput", "flush", "clean"}, ha_address=None)
    facts = serve._facts(cast(Any, opened), cast(Any, SimpleNamespace(path="p")), None)
    assert list(facts.items()) == [
        ("root", "r"),
        ("socket", "p"),
        ("services", ["clean", "flush", "reput"]),
        ("ha_address", None),
        ("metrics_address", None),
    ]


class Described:
    """Say this.

    Not that.
    """


@pytest.mark.parametrize(("one", "line"), [(Described, "Say this"), (type("Bare", (), {"__doc__": None}), "")])
def test_a_type_is_described_by_its_first_line(one: type, line: str) -> None:
    assert _first_line(one) == line


@pytest.mark.parametrize(
    ("header", "cells", "numeric", "width"),
    [("", [], False, 0), ("", [], True, 0), ("x", [], True, 1), ("", ["ab"], False, 2), ("state", [], False, 5)],
)
def test_a_column_without_text_takes_no_room(header: str, cells: list[str], numeric: bool, width: int) -> None:
    for whole_moments in (False, True):
        assert Column(header, cells, numeric).least_width(whole_moments=whole_moments) == width


def test_the_folder_of_a_measurement_is_beside_the_store_and_goes_with_the_session(tmp_path: Path) -> None:
    one = session()
    give(one, store=str(tmp_path / "store"))
    with one.resources:
        scratch = flush_bench._make_scratch(one)
        assert (scratch.parent, scratch.is_dir()) == (tmp_path, True)
    assert not scratch.exists()


def test_a_result_is_out_before_the_notes_that_were_held(monkeypatch: pytest.MonkeyPatch) -> None:
    one, done = session(), list[str]()
    monkeypatch.setattr(one.environment.stdout, "flush", lambda: done.append("flushed"))
    monkeypatch.setattr(Session, "release_notes", lambda _: done.append("notes"))
    give(one)
    one.show(Result("x", {"a": 1}))
    assert done[-2:] == ["flushed", "notes"]


@pytest.mark.parametrize(
    ("log", "info_ms", "shown"),
    [
        (LogInfo(), -1, (None, None, None, 0)),
        (LogInfo(first_ms=0, last_ms=0), 0, (0, 0, 0, 0)),
        (LogInfo(first_ms=1, last_ms=2), 3, (1, 2, 3, 3)),
    ],
)
def test_times_of_a_store_are_shown_where_it_has_some(
    log: LogInfo, info_ms: int, shown: tuple[int | None, ...], tmp_path: Path
) -> None:
    one = session()
    give(one, store=str(tmp_path))
    found = StoreInfo(StoreLayout(tmp_path), LINE_4_9, [], [], {}, log=log, abort_ms=info_ms, checkpoint_ms=info_ms)
    facts = info._facts(one, found)
    assert tuple(facts[name] for name in ("first_ms", "last_ms", "abort_ms", "trusted_time_ms")) == shown


def test_a_group_past_the_end_of_a_queue_makes_up_for_no_lag_of_another(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 9)
    (root / "config").mkdir(exist_ok=True)
    (root / "config/consumerOffset.json").write_text('{"offsetTable": {"T@g": {"0": 1, "1": 3, "2": 9}}}')
    answer = rmqctl("--format", "json", "lag", "--queues", store=root).json
    assert [(row["queue_id"], row["lag"]) for row in answer["queues"]] == [(2, -6), (0, 2), (1, 0)]
    assert (answer["lag_messages"], answer["group_count"], answer["wrong_offset_count"]) == (2, 1, 1)


@pytest.mark.parametrize("more", [(), ("-i", "7F"), ("get",)])
def test_a_word_of_another_tool_names_the_command_that_does_it(more: tuple[str, ...], tmp_path: Path) -> None:
    run = rmqctl("queryMsgById", *more, store=tmp_path)
    does = "queryMsgById is a word of another tool; here `rmqctl get --msg-id ID` does it (see rmqctl --help)"
    assert (run.code, run.err) == (USAGE, f"rmqctl: {does}\n")


@pytest.mark.parametrize("read", [QueueReading._rows, QueueReading._lines])
def test_the_damage_that_a_reading_met_is_told_after_its_messages(read: Callable[[Any], Iterator[object]]) -> None:
    one, told = session(), list[str]()
    damage = [DamagedRecord("torn", file=Path("f"), offset=1), DamagedRecord("bad", file=Path("f"), offset=2)]

    class Reader(list[str]):
        damaged = damage

        def runs(self, most: int) -> Iterator[object]:
            return iter(())

    rows = SimpleNamespace(row=lambda message: message, names=(), warn_of_damage=lambda: told.append("bodies"))
    reading = SimpleNamespace(session=one, rows=rows, reader=Reader())
    reading._warn_of_damage = lambda: QueueReading._warn_of_damage(cast(Any, reading))
    assert list(read(cast(Any, reading))) == []
    assert (told, said(one)) == (["bodies"], "warning: f, offset 1: torn\nwarning: f, offset 2: bad\n")


def test_a_report_shows_groups_that_lose_messages_and_an_empty_cell_without_them() -> None:
    groups: list[dict[str, int]] = [{"g": 1}, {}]
    queues = [LostQueue("T", number, message_count=1, unconsumed_by_group=one) for number, one in enumerate(groups)]
    lost = SimpleNamespace(messages=2, intact=1, queue_rows=lambda: queues)
    start = SimpleNamespace(
        starts=True, mode="normal", start_segment=0, log_end=1000, cut_reason="a blank", lost=lost, files=[], traps=[]
    )
    section = contents._start(cast(Any, start))
    assert section.text == (
        "It starts (normal recovery from segment 0). The log ends at 1,000: a blank. 2 messages lost, 1 of them intact."
    )
    first, second = (asdict(one) for one in queues)
    assert section.tables == [contents.table_of("Lost", [first, second | {"unconsumed_by_group": None}])]


@pytest.mark.parametrize(("low", "start"), [(-1, 0), (0, 0), (1, 1), (4096, 4096)])
def test_a_served_store_ends_with_its_counts(low: int, start: int) -> None:
    statistics = SimpleNamespace(put_messages=1, put_bytes=2, failed_puts=3, found_gets=4, missed_gets=5)
    opened = SimpleNamespace(
        statistics=statistics, state=lambda: SimpleNamespace(halves_given_up=6), min_log_offset=low, max_log_offset=7
    )
    assert serve._counts(cast(Any, opened)) == {
        "put_messages": 1, "put_bytes": 2, "failed_puts": 3, "gets": 9, "halves_given_up": 6, "log_start": start,
        "log_end": 7,
    }  # fmt: skip
