"""The sections of a report: their rows, charts and sentences, by whole values."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rmqctl.report import contents
from rmqctl.report.contents import MOST_ROWS, Cell, Section, Usage, sections_of, show_cell, table_of
from store.query.timeline import Jump, Timeline
from store.verbs.lag import LagReport, QueueLag
from store.verbs.queue_ends import QueueEnd


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts as what is drawn."""
    monkeypatch.setattr(contents, "bars", lambda values, title, *_: (title, list(values)))
    monkeypatch.setattr(contents, "columns", lambda values, title: (title, list(values)))


def texts(section: Section) -> list[tuple[str, list[str], list[list[str]]]]:
    return [(one.title, one.headings, [[cell.text for cell in row] for row in one.rows]) for one in section.tables]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("count", 1234567, "1,234,567"),
        ("size_bytes", 20480, "20.0 KiB"),
        ("last_ms", 1, "1970-01-01T00:00:00.001Z"),
        ("is_on", True, "yes"),
        ("name", "1234567", "1234567"),
        ("name", None, "-"),
    ],
)
def test_a_cell_has_commas_in_a_count_alone(name: str, value: object, text: str) -> None:
    assert show_cell(name, value) == text


@pytest.mark.parametrize(
    ("word", "is_long"), [("x" * 24, False), ("x" * 25, True), ("x" * 25 + " x", True), ("x " * 30, False), ("", False)]
)
def test_a_long_word_may_be_broken(word: str, is_long: bool) -> None:
    assert Cell(word, word, False).is_long is is_long


@pytest.mark.parametrize(("count", "left_out"), [(0, 0), (MOST_ROWS, 0), (MOST_ROWS + 1, 1), (MOST_ROWS + 7, 7)])
def test_a_table_has_its_first_rows_and_the_number_of_the_others(count: int, left_out: int) -> None:
    table = table_of("T", ({"row_count": number, "name": "x"} for number in range(count)))
    assert (len(table.rows), table.left_out) == (count - left_out, left_out)
    assert table.headings == (["rows", "name"] if count else [])
    if count:
        assert table.rows[0] == [Cell("0", "0", True), Cell("x", "x", False)]
        assert [table.is_number(column) for column in (0, 1)] == [True, False]


def test_a_table_may_have_chosen_columns_and_its_commands_are_marked() -> None:
    table = table_of("T", [{"a": 1, "command": "rmqctl x"}], ["command", "b"])
    assert table.rows == [[Cell("rmqctl x", "rmqctl x", False, True), Cell("-", "", False)]]


def lag(group: str, lag: int, first_ms: int = -1) -> QueueLag:
    return QueueLag(group, "T", 0, 5, 0, 9, "behind", lag, 10, 1.0, 0, first_ms)


def examined(**changed: Any) -> Any:
    queues = [QueueEnd("T", 0, 1, 3, 0, 91), QueueEnd("U", 0, 0, 9, 0, 91), QueueEnd("T", 1, 0, 4, 0, 91)]
    told = {
        "diagnoses": [], "findings": [], "starts": [], "lag": None, "config": None,
        "info": SimpleNamespace(layout=SimpleNamespace(root=Path("/s")), queues=queues), **changed,
    }  # fmt: skip
    return SimpleNamespace(**told)


def sections(found: Any, usage: list[Usage] | None = None, timeline: Timeline | None = None) -> dict[str, Section]:
    given = sections_of(found, usage or [], timeline or Timeline("hour"), [{"name": "a", "value": 1}])
    return {section.id: section for section in given}


def test_a_sound_store_has_its_sections_in_order() -> None:
    found = sections(examined())
    assert list(found) == ["findings", "usage", "timeline", "queues", "config", "settings"]
    assert [found["findings"].text, found["config"].text] == ["Nothing is wrong.", "There is no table under config/."]
    assert [found[name].tables for name in ("findings", "timeline", "config")] == [[], [], []]
    assert [found[name].charts for name in ("usage", "timeline")] == [[], []]
    assert texts(found["settings"]) == [("Not at their default", ["name", "value"], [["a", "1"]])]


def test_queues_are_listed_and_their_depths_drawn_by_topic_the_deepest_first() -> None:
    section = sections(examined())["queues"]
    assert section.charts == [("Messages in queues", [("U", 9), ("T", 6)])]
    assert [row for _, _, rows in texts(section) for row in rows] == [
        ["T", "0", "1", "3", "2"],
        ["U", "0", "0", "9", "9"],
        ["T", "1", "0", "4", "4"],
    ]


def test_usage_is_drawn_by_size() -> None:
    section = sections(examined(), [Usage("a", 3, 10_240), Usage("b", 1, 40_960)])["usage"]
    assert section.charts == [("Bytes by topic", [("b", 40_960), ("a", 10_240)])]
    assert [row for _, _, rows in texts(section) for row in rows] == [["b", "1", "40.0 KiB"], ["a", "3", "10.0 KiB"]]


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        ("second", "1970-01-02 03:04:05"),
        ("minute", "1970-01-02 03:04"),
        ("hour", "1970-01-02 03"),
        ("day", "1970-01-02"),
    ],
)
def test_a_bucket_of_the_timeline_is_named_as_exactly_as_its_unit(unit: str, name: str) -> None:
    start_ms = 86_400_000 + 3 * 3_600_000 + 4 * 60_000 + 5000
    timeline = Timeline(unit, Counter({start_ms: 7}), Counter({start_ms: 70}), jumps=[Jump("pause", 1, 0, 1)])
    section = sections(examined(), timeline=timeline)["timeline"]
    assert section.charts == [("Messages", [(name, 7)])]
    assert section.text == f"Messages by {unit}, by store time (UTC)."
    assert [title for title, _, _ in texts(section)] == ["Pauses and clock jumps"]


def test_lag_is_drawn_by_group_and_topic_without_those_at_the_end() -> None:
    rows = [lag("a", 2), lag("b", 5, 1), lag("c", 0), lag("a", 1), lag("d", -3)]
    section = sections(examined(lag=LagReport(rows, None, ["x", "y"], {}, {})))["lag"]
    assert section.charts == [("Lag in messages", [("b · T", 5), ("a · T", 3)])]
    assert section.text == " Groups that never consumed: x, y."
    ((title, _, cells),) = texts(section)
    assert (title, cells[0], cells[1][-1]) == (
        "Groups",
        ["b", "T", "0", "behind", "5", "10 B", "5", "9", "1970-01-01T00:00:00.001Z"],
        "-",
    )


def test_a_store_without_consumer_offsets_says_so() -> None:
    section = sections(examined(lag=LagReport([], None, [], {}, {})))["lag"]
    assert (section.text, section.charts, section.tables) == ("There are no consumer offsets in config/.", [], [])


def start(compat: str, **changed: Any) -> Any:
    lost = SimpleNamespace(messages=0, intact=0, queue_rows=list)
    told = {
        "compat": compat, "starts": True, "mode": "normal", "start_segment": "0", "log_end": 1234,
        "cut_reason": "zeros", "lost": lost, "files": [], "traps": [], "reason": "a link", "blocker": ("no-code", ()),
        **changed,
    }  # fmt: skip
    return SimpleNamespace(**told)


def test_starts_with_one_outcome_share_a_section() -> None:
    blocked = start("5.5", starts=False)
    found = sections(examined(starts=[start("4.9"), start("5.3"), blocked]))
    alike = found["start-4.9-5.3"]
    assert alike.title == "What a broker of 4.9 or 5.3 would do"
    assert alike.text == "It starts (normal recovery from segment 0). The log ends at 1,234: zeros. "
    assert alike.tables == []
    assert found["start-5.5"].text.startswith("It does not start: a link")


def test_what_a_start_loses_and_changes_is_listed() -> None:
    files = [SimpleNamespace(file="b", action="remove", size=10_240)]
    lost = SimpleNamespace(messages=2, intact=1, queue_rows=list)
    section = sections(examined(starts=[start("4.9", files=files, lost=lost)]))["start-4.9"]
    assert section.text.endswith("zeros. 2 messages lost, 1 of them intact.")
    assert texts(section) == [("Files that change", ["file", "action", "size"], [["b", "remove", "10.0 KiB"]])]


def test_tables_of_the_broker_are_listed_with_what_is_loaded() -> None:
    file = SimpleNamespace(name="topics.json", load=SimpleNamespace(value="loads it"))
    file.main = SimpleNamespace(state=SimpleNamespace(value="parses"))
    section = sections(examined(config=SimpleNamespace(files=[file])))["config"]
    assert (section.text, [rows for _, _, rows in texts(section)]) == ("", [[["topics.json", "loads it", "parses"]]])


def test_findings_are_ranked_and_explained() -> None:
    one = SimpleNamespace(rank=2, what="lost", count=3, detail="d", code="none", subject=(), area="log")
    section = sections(examined(diagnoses=[cast(Any, one)]))["findings"]
    assert section.text == (
        "The worst first. Rank 1: a broker does not start. 2: messages are lost, or will be. "
        "3: consumers or queries get wrong results. 4: good to know."
    )
    ((title, _, rows),) = texts(section)
    assert (title, rows[0][:4]) == ("Findings", ["2", "lost", "3", "d"])
