"""Values of an Arrow answer as JSON has them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from store.query.tables.json_values import rows_of, unique_names

MOMENT = datetime(2026, 11, 21, 3, 9, tzinfo=UTC)
ZONED, NAIVE = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
PAIR = pa.struct([("t", ZONED), ("b", pa.binary())])


@pytest.mark.parametrize(
    ("value", "kind", "told"),
    [
        (MOMENT, ZONED, "2026-11-21T03:09:00.000Z"),
        (MOMENT.replace(tzinfo=None), NAIVE, "2026-11-21T03:09:00.000"),
        ([MOMENT, None], pa.list_(ZONED), ["2026-11-21T03:09:00.000Z", None]),
        ({"t": MOMENT, "b": b"ab"}, PAIR, {"t": "2026-11-21T03:09:00.000Z", "b": "YWI="}),
        ([(1, MOMENT)], pa.map_(pa.int32(), ZONED), {"1": "2026-11-21T03:09:00.000Z"}),
        ([(["é"], 1)], pa.map_(pa.list_(pa.string()), pa.int32()), {'["é"]': 1}),
        (b"ab", pa.binary(), "YWI="),
        (math.nan, pa.float64(), None),
        (Decimal(7), pa.decimal128(38, 0), 7),
        (Decimal("7.5"), pa.decimal128(38, 1), "7.5"),
        ((1 << 63) - 1, pa.int64(), (1 << 63) - 1),
        (None, ZONED, None),
        (MOMENT.date(), pa.date32(), "2026-11-21"),
    ],
)  # fmt: skip
def test_a_value_is_told_as_json_has_it(value: Any, kind: pa.DataType, told: Any) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([value], kind)], names=["a"])
    assert list(rows_of(batch)) == [{"a": told}]


def test_a_time_that_no_calendar_has_is_told_as_its_number() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1 << 62], pa.int64()).cast(ZONED)], names=["a"])
    assert list(rows_of(batch)) == [{"a": str(1 << 62)}]


def test_columns_of_one_name_are_told_apart() -> None:
    assert unique_names(["a", "b", "a", "a"]) == ["a", "b", "a (2)", "a (3)"]


@pytest.mark.parametrize(
    ("unit", "count"),
    [("s", 1_795_230_541), ("ms", 1_795_230_541_006), ("us", 1_795_230_541_006_000), ("ns", 1_795_230_541_006_000_000)],
)
def test_a_time_is_counted_in_its_unit(unit: str, count: int) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([count], pa.int64()).cast(pa.timestamp(unit))], names=["a"])
    assert list(rows_of(batch)) == [{"a": f"2026-11-21T03:09:01.{'000' if unit == 's' else '006'}"}]
