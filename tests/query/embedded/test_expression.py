"""The filter of a scan: which shares it leaves, which columns it needs, which rows it keeps; and conditions on rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from store.errors import BadRequest
from store.query.embedded.dataset import Watch
from store.query.embedded.expression import ExpressionFilter
from store.query.embedded.row_where import RowWhere

SCHEMA = pa.schema([("store", pa.string()), ("a", pa.int64()), ("b", pa.string()), ("c", pa.int64())])
RANGES: dict[str, dict[str, tuple[int | None, int | None]]] = {
    "unknown": {},
    "to 5": {"a": (None, 5)},
    "5 alone": {"a": (5, 5)},
    "5 to 7": {"a": (5, 7)},
    "from 7": {"a": (7, None)},
}


@pytest.mark.parametrize(
    ("expression", "left"),
    [
        (None, ["unknown", "to 5", "5 alone", "5 to 7", "from 7"]),
        (pc.field("a") < 5, ["unknown", "to 5"]),
        (pc.field("a") != 5, ["unknown", "to 5", "5 to 7", "from 7"]),
        (pc.field("a") <= 5, ["unknown", "to 5", "5 alone", "5 to 7"]),
        (pc.field("a") == 5, ["unknown", "to 5", "5 alone", "5 to 7"]),
        (pc.field("a") == 6, ["unknown", "5 to 7"]),
        (pc.field("a") > 5, ["unknown", "5 to 7", "from 7"]),
        (pc.field("a") >= 7, ["unknown", "5 to 7", "from 7"]),
        (pc.field("a") > 7, ["unknown", "from 7"]),
        (pc.field("b") == "x", ["unknown", "to 5", "5 alone", "5 to 7", "from 7"]),
        (pc.field("store") == "here", ["unknown", "to 5", "5 alone", "5 to 7", "from 7"]),
        (pc.field("store") == "there", []),
    ],
)
def test_a_share_is_left_out_where_no_row_of_its_range_can_pass(expression: Any, left: list[str]) -> None:
    wanted = ExpressionFilter(expression, SCHEMA, {"store": "here"})
    assert wanted.choose(list(RANGES), RANGES.__getitem__) == left
    assert wanted.choose([], RANGES.__getitem__) == []


BATCH = pa.record_batch({"a": [3, 1, 4, 1], "b": ["x", "y", None, "x"], "c": [0, 1, 2, 3]})


@pytest.mark.parametrize(
    ("expression", "named", "read", "kept"),
    [
        (None, [], ["c"], [0, 1, 2, 3]),
        (pc.field("a") == 1, ["a"], ["c", "a"], [1, 3]),
        (pc.field("c") > 1, ["c"], ["c"], [2, 3]),
        ((pc.field("a") > 0) & (pc.field("b") == "x"), ["a", "b"], ["c", "a", "b"], [0, 3]),
        (pc.field("a") > 0, ["a"], ["c", "a"], [0, 1, 2, 3]),
        (pc.field("a") > 4, ["a"], ["c", "a"], []),
        ((pc.field("store") == "here") & (pc.field("a") == 4), ["store", "a"], ["c", "a"], [2]),
        (pc.field("store") == "there", ["store"], ["c"], []),
    ],
)
def test_the_rows_that_pass_keep_their_order_and_the_wanted_columns(
    expression: Any, named: list[str], read: list[str], kept: list[int]
) -> None:
    wanted = ExpressionFilter(expression, SCHEMA, {"store": "here"})
    schema = pa.schema([SCHEMA.field("c")])
    assert [name for name in SCHEMA.names if wanted.mentions(name)] == named
    assert wanted.columns_for(schema).names == read
    assert wanted.select(BATCH.select(read), schema).to_pydict() == {"c": kept}


def test_a_watch_adds_up_what_was_read_and_begins_anew() -> None:
    seen: list[tuple[int, int]] = []
    watch = Watch()
    watch.advance(7)
    watch.begin(lambda done, total: seen.append((done, total)))
    watch.expect(100)
    watch.expect(20)
    watch.advance(30)
    watch.advance(0)
    assert seen == [(30, 120), (30, 120)]
    watch.is_stopped = True
    with pytest.raises(KeyboardInterrupt):
        watch.advance(1)
    watch.begin()
    watch.advance(1)
    assert (seen, watch.failure) == ([(30, 120), (30, 120)], None)


ROWS: list[dict[str, object]] = [
    {"n": 1, "tags": "a", "kind": None, "properties": {"k": "v"}},
    {"n": 2, "tags": None, "mixed": 1},
    {"n": 3, "mixed": "text"},
]


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("condition", "numbers"),
    [
        ("n >= 2", [1, 2]),
        ("n < 2 or n > 2", [0, 2]),
        ("tags = 'a'", [0]),
        ("tags is null", [1, 2]),
        ("kind is null", [0, 1, 2]),
        ("absent is null", [0, 1, 2]),
        ("absent = 'x'", []),
        ("properties['k'] = 'v'", [0]),
        ("mixed = '1'", [1]),
        ("mixed = 'text' -- the last one", [2]),
    ],
)
def test_a_condition_picks_rows_by_their_names(condition: str, numbers: list[int]) -> None:
    with RowWhere(condition, ["absent"]) as where:
        assert where.select(ROWS) == numbers
        assert where.select([]) == []


@pytest.mark.parametrize("condition", ["n >", "n = 1) or (1 = 1; drop table rows", "unknown = 1"])
def test_what_is_no_condition_is_refused(condition: str) -> None:
    with pytest.raises(BadRequest), RowWhere(condition, []) as where:
        where.select(ROWS)


def test_a_condition_of_too_many_brackets_is_refused_before_duckdb_has_it() -> None:
    with pytest.raises(BadRequest, match="more than 500 brackets inside brackets"):
        RowWhere(f"{'(' * 501}n = 1{')' * 501}", ["n"])


@pytest.mark.parametrize("condition", ["(select count(*) from read_text('{}')) >= 0", "exists (from '{}')"])
def test_a_condition_on_rows_reads_no_file(condition: str, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    with (
        pytest.raises(BadRequest),
        RowWhere(condition.format(tmp_path / "secret.csv"), ["a"]) as where,
    ):
        where.select([{"a": 1}])
