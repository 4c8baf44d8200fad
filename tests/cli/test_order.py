"""Names, rows and words come in an order that no dict or set decides."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rmqctl import fleet, group, querying
from rmqctl.commands import lag, report, schema, serve
from rmqctl.completion import _chosen
from rmqctl.put_lines import LEFT_OUT, LinePut
from rmqctl.schema import _property
from store import BadRequest, Message, open_store
from store.change.quarantine import purge
from store.engine.ha import Limits
from store.files import Filesystem
from store.structures.commitlog.put_result import PutStatus
from store.structures.findings import Finding
from tests.cli.running import rmqctl
from tests.support.sessions import said, session
from tests.support.stores import SMALL, make_store


def finding(kind: str, file: str) -> Finding:
    return Finding(kind, file, 0)


def test_completed_words_are_numbers_in_order_and_then_words() -> None:
    assert _chosen(["b", "10", "a", "9", "a\x1b"], "") == ["9", "10", "a", "b"]


def test_known_names_are_listed_in_order() -> None:
    one = session()
    given = SimpleNamespace(groups={"zeta": 1, "alpha": 1}, topics={})
    assert lag._unknown(one, cast(Any, given), "nope", None) == "no consumer group is called 'nope'"
    assert "known are alpha, zeta" in said(one)


@pytest.mark.parametrize(
    ("span_ms", "unit"),
    [
        (-1, "second"), (0, "second"), (120_000, "second"), (120_001, "minute"), (7_200_000, "minute"),
        (7_200_001, "hour"), (432_000_000, "hour"), (432_000_001, "day"),
    ],
)  # fmt: skip
def test_a_timeline_has_at_most_120_columns_below_days(span_ms: int, unit: str) -> None:
    log = SimpleNamespace(first_ms=5, last_ms=5 + span_ms)
    assert report._unit(cast(Any, SimpleNamespace(info=SimpleNamespace(log=log)))) == unit


def test_names_of_a_schema_come_before_those_below_them() -> None:
    below = {"type": "array", "items": {"properties": {"b": {"type": ["integer", "null"]}}}}
    rows = list(schema._names({"properties": {"a": below, "c": {}}}, {}, ""))
    assert [(row["name"], row["type"]) for row in rows] == [
        ("a", "array"),
        ("a[].b", "integer or null"),
        ("c", "string"),
    ]


def test_findings_are_sorted_by_place_and_counted_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [finding("bad-crc", "b"), finding("unknown", "a"), finding("bad-crc", "a")]
    monkeypatch.setattr("store.verbs.check.check_files", lambda *given, **named: found)
    one = session()
    tables = SimpleNamespace(session=one, readers={"s": None}, stores=["s"])
    checked = querying.EmbeddedTables.check(cast(Any, tables), "s", cast(Any, None))
    assert [(row.file, row.kind) for row in checked] == [("a", "bad-crc"), ("a", "unknown"), ("b", "bad-crc")]
    tables.check = lambda store, options: [*reversed(found)]
    monkeypatch.setattr(querying, "open_tables", lambda *given, **named: nullcontext(tables))
    result = fleet.check_fleet(one, ["s"], 100, ("kind", "file", "count"), cast(Any, (None,) * 4))
    assert list(result.tables[1].rows) == [{"kind": "bad-crc", "count": 2}, {"kind": "unknown", "count": 1}]


def test_services_are_named_in_order(tmp_path: Path) -> None:
    services = ("transactions", "cleaning", "statistics", "schedule")
    one = session(width=200)
    with ExitStack() as ports, open_store(tmp_path / "s", read_only=False, services=services, settings=SMALL) as opened:
        serve._open_ports(one, opened, ports, None, Limits())
    assert "with cleaning, schedule, statistics, transactions" in " ".join(said(one).split())
    with pytest.raises(BadRequest, match=r", not a, b$"):
        open_store(tmp_path / "t", read_only=False, services=("b", "cleaning", "a"), settings=SMALL)
    with pytest.raises(TypeError, match="'listen' is an option"):
        open_store(tmp_path / "t", master="b", listen="a")  # type: ignore[call-overload]


def test_lines_that_are_left_out_are_counted_in_order() -> None:
    one = session(width=400)
    kinds = sorted(LEFT_OUT)[:2]
    given = SimpleNamespace(
        _left_out={kinds[1]: 3, kinds[0]: 2}, _session=one, _form=SimpleNamespace(as_stored=True), _problem=None,
        _recompressed_count=0, _inner_count=0, _damaged_count=0,
    )  # fmt: skip
    LinePut._end(cast(Any, given))
    assert f": 2 {LEFT_OUT[kinds[0]]}, 3 {LEFT_OUT[kinds[1]]};" in said(one)


def test_messages_of_a_key_come_in_the_logs_order_and_times_too(tmp_path: Path) -> None:
    now = iter(range(1_700_000_000_000, 1_800_000_000_000, 1000))
    with open_store(tmp_path / "s", read_only=False, settings=SMALL, clock=lambda: next(now)) as opened:
        for _ in range(3):
            opened.put(Message.of("T", "hello", keys=["k"]))
    found = rmqctl("-f", "json", "get", "T", "--key", "k", store=tmp_path / "s").json["messages"]
    assert [row["log_offset"] for row in found] == sorted(row["log_offset"] for row in found)
    assert len(found) == 3
    seconds = [row["start_ms"] for row in rmqctl("-f", "json", "timeline", store=tmp_path / "s").json["last_seconds"]]
    assert (seconds, len(seconds) > 1) == (sorted(seconds), True)


def test_changes_that_are_not_there_are_named_in_order(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="no quarantined change a, b, c"):
        purge(make_store(tmp_path / "s", 1), ["c", "a", "b"], fs=Filesystem())


def test_the_names_of_commands_are_padded_to_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "PANELS", {"One": ["ab", "a"], "Other": ["abcd"]})
    lists: list[list[tuple[str, str]]] = []
    formatter = SimpleNamespace(section=lambda title: nullcontext(), write_dl=lists.append)
    given = SimpleNamespace(_summaries=lambda: {"ab": "x", "a": "y", "abcd": "z"})
    group.RootGroup.format_commands(cast(Any, given), cast(Any, None), cast(Any, formatter))
    assert lists == [[("ab  ", "x"), ("a   ", "y")], [("abcd", "z")]]


def test_a_type_that_the_vocabulary_lacks_is_named_with_those_that_it_has() -> None:
    with pytest.raises(TypeError, match=r"^log_offset is \['boolean', 'string'\], and \['integer', 'null'\] in"):
        _property("log_offset", bool | str, {})


@pytest.mark.parametrize(
    ("status", "numbers"), [(PutStatus.PUT_OK, [1, 3, 7]), (PutStatus.FLUSH_DISK_TIMEOUT, [*range(9)])]
)
def test_refused_lines_come_in_order(status: PutStatus, numbers: list[int]) -> None:
    found, answer = [None] * 9, SimpleNamespace(status=status, refused={7: "x", 1: "x", 3: "x"})
    given = SimpleNamespace(
        _answers=lambda: [(_Columns(found), answer)], _rows=lambda messages, answer, numbers: iter(numbers)
    )
    assert list(LinePut._refused(cast(Any, given))) == numbers


class _Columns(list[None]):
    messages = None
