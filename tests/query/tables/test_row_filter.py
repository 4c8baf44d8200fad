"""Conditions on rows: limits of a column, shares that are left out, and rows that pass, below, at and above."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from store.files.store_reader import StoreReader
from store.query.tables.row_filter import Condition, Conditions, bounds
from store.structures.commitlog.message_batch import MessageRows, row_limits
from store.structures.commitlog.scan import ScanRules
from store.structures.commitlog.slices import LogSlice, readable_runs
from tests.support.golden import golden

C = Condition


@pytest.mark.parametrize(
    ("conditions", "limits"),
    [
        ([], (None, None)),
        ([C("size", "==", 5)], (5, 5)),
        ([C("size", ">", 5)], (5, None)),
        ([C("size", ">=", 5)], (5, None)),
        ([C("size", "<", 5)], (None, 5)),
        ([C("size", "<=", 5)], (None, 5)),
        ([C("size", "in", (7, 3, 5))], (3, 7)),
        ([C("size", "in", (None, 3))], (3, 3)),
        ([C("size", "in", ())], (None, None)),
        ([C("size", "in", (7, 3, 5)), C("size", "in", (4, 9))], (4, 7)),
        ([C("size", "==", None)], (None, None)),
        ([C("size", ">", 5), C("size", ">=", 9), C("size", "<", 20), C("size", "<=", 12)], (9, 12)),
        ([C("size", ">", 9), C("size", ">", 5), C("size", "<", 12), C("size", "<", 20)], (9, 12)),
        ([C("size", "==", 5, negated=True)], (None, None)),
        ([C("size", "exists", None)], (None, None)),
        ([C("topic", "starts", "T")], (None, None)),
        ([C("flag", "==", 5)], (None, None)),
    ],
)
def test_conditions_limit_a_column(conditions: list[Condition], limits: tuple[Any, Any]) -> None:
    column = "topic" if conditions and conditions[0].column == "topic" else "size"
    assert bounds(conditions, column) == limits


@pytest.mark.parametrize(
    ("condition", "is_chosen"),
    [
        (C("size", ">=", 9), True),
        (C("size", ">=", 10), True),
        (C("size", ">=", 20), True),
        (C("size", ">=", 21), False),
        (C("size", "<=", 21), True),
        (C("size", "<=", 10), True),
        (C("size", "<=", 9), False),
        (C("size", "==", 9), False),
        (C("size", "==", 10), True),
        (C("size", "==", 20), True),
        (C("size", "==", 21), False),
        (C("size", "==", 9, negated=True), True),
        (C("flag", "==", 9), True),
    ],
)
@pytest.mark.parametrize("is_open", [False, True])
def test_a_share_is_left_out_where_none_of_its_values_can_pass(
    condition: Condition, is_chosen: bool, is_open: bool
) -> None:
    ranges = {"size": (None, None) if is_open else (10, 20)}
    assert Conditions([condition]).choose(["share"], lambda _: ranges) == (["share"] if is_chosen or is_open else [])


@pytest.mark.parametrize("column", ["size", "flag"])
def test_a_column_is_mentioned_where_a_condition_names_it(column: str) -> None:
    assert Conditions([C("size", ">", 1), C("topic", "==", "T")]).mentions(column) is (column == "size")


@pytest.fixture(scope="module")
def rows() -> MessageRows:
    """The records of the first segment of `normal`."""
    files = StoreReader(str(golden("normal").store))
    (first, *_) = files.segments()
    (run,) = readable_runs(files, LogSlice(first.path, first.number, first.size, 0, first.size), ScanRules())
    return MessageRows(run.buffer, run.file_start, run.columns)


@pytest.mark.parametrize(
    ("condition", "passes"),
    [
        (C("queue_id", "==", 1), lambda topic, queue, size, at: queue == 1),
        (C("queue_id", "==", 1, negated=True), lambda topic, queue, size, at: queue != 1),
        (C("queue_id", "in", (0, 2)), lambda topic, queue, size, at: queue in (0, 2)),
        (C("size", ">", 245), lambda topic, queue, size, at: size > 245),
        (C("size", ">=", 245), lambda topic, queue, size, at: size >= 245),
        (C("size", "<", 245), lambda topic, queue, size, at: size < 245),
        (C("size", "<=", 245), lambda topic, queue, size, at: size <= 245),
        (C("log_offset", "<=", 245), lambda topic, queue, size, at: at <= 245),
        (C("topic", "==", "TopicA"), lambda topic, queue, size, at: topic == "TopicA"),
        (C("topic", "in", ("TopicA", None, "none")), lambda topic, queue, size, at: topic == "TopicA"),
        (C("topic", "starts", "Topic"), lambda topic, queue, size, at: topic.startswith("Topic")),
        (C("topic", "starts", "Topic", negated=True), lambda topic, queue, size, at: not topic.startswith("Topic")),
        (C("size", "exists", None), lambda topic, queue, size, at: True),
        (C("store_timestamp", "<", 0), lambda topic, queue, size, at: False),
    ],
)
def test_the_rows_that_pass_are_those_that_meet_the_condition(
    condition: Condition, passes: Any, rows: MessageRows
) -> None:
    values = list(zip(rows.topics.to_pylist(), *(
        column.tolist() for column in (rows.columns.queue_id, rows.columns.size, rows.log_offset)
    ), strict=True))  # fmt: skip
    found = Conditions([condition]).select_messages(rows)
    assert found.log_offset.tolist() == [row[3] for row in values if passes(*row)]


@pytest.mark.parametrize(
    ("sizes", "most_rows", "most_bytes", "cuts"),
    [
        ([], 2, 10, [0]),
        ([5], 2, 10, [0, 1]),
        ([5, 5], 2, 10, [0, 2]),
        ([5, 5, 5], 2, 100, [0, 2, 3]),
        ([5, 5, 1], 9, 10, [0, 2, 3]),
        ([5, 6], 9, 10, [0, 1, 2]),
        ([11], 9, 10, [0, 1]),
        ([1, 11, 1], 9, 10, [0, 1, 2, 3]),
        ([9, 1, 10, 11, 1, 9], 9, 10, [0, 2, 3, 4, 6]),
    ],
)
def test_a_batch_has_no_more_rows_and_bytes_than_allowed(
    sizes: list[int], most_rows: int, most_bytes: int, cuts: list[int]
) -> None:
    assert list(row_limits(np.array(sizes, np.int64), most_rows, most_bytes)) == cuts


@pytest.mark.parametrize("step", [-1, 0, 1])
def test_a_time_is_compared_in_microseconds(step: int, rows: MessageRows) -> None:
    times = rows.columns.store_timestamp_ms.tolist()
    limit = sorted(times)[len(times) // 2] * 1000 + step
    found = Conditions([C("store_timestamp", "<", limit)]).select_messages(rows)
    assert found.columns.store_timestamp_ms.tolist() == [one for one in times if one * 1000 < limit]
