"""What Spark hands over, as JSON has it, at any depth."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from store.query.spark.described import to_json_value

MOMENT = datetime(2026, 11, 21, 11, 9)
PAIR = StructType().add("t", TimestampType()).add("b", BinaryType())


@pytest.fixture(autouse=True)
def shanghai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Eight hours before UTC."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "Asia/Shanghai")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("value", "kind", "told"),
    [
        (MOMENT, TimestampType(), "2026-11-21T03:09:00.000Z"),
        (MOMENT, TimestampNTZType(), "2026-11-21T11:09:00.000"),
        ([MOMENT, None], ArrayType(TimestampType()), ["2026-11-21T03:09:00.000Z", None]),
        (Row(t=MOMENT, b=bytearray(b"ab")), PAIR, {"t": "2026-11-21T03:09:00.000Z", "b": "YWI="}),
        ([Row(t=None, b=b"")], ArrayType(PAIR), [{"t": None, "b": ""}]),
        (
            {"a": Row(t=MOMENT, b=None)},
            MapType(StringType(), PAIR),
            {"a": {"t": "2026-11-21T03:09:00.000Z", "b": None}},
        ),
        ({1: b"ab"}, MapType(IntegerType(), BinaryType()), {"1": "YWI="}),
        ({Row(t=None, b=b"ab"): 1}, MapType(PAIR, IntegerType()), {'{"t": null, "b": "YWI="}': 1}),
        ([1.5, float("nan"), float("-inf")], ArrayType(DoubleType()), [1.5, None, None]),
        ([Decimal("1.50")], ArrayType(DecimalType(3, 2)), ["1.50"]),
        (date(2026, 11, 21), DateType(), "2026-11-21"),
        ((1, 2), StructType().add("a", IntegerType()).add("a", IntegerType()), {"a": 1, "a (2)": 2}),
    ],
    ids=str,
)
def test_a_value_is_told_as_json_has_it(value: Any, kind: DataType, told: Any) -> None:
    assert to_json_value(value, kind) == told
    assert json.loads(json.dumps(to_json_value(value, kind), allow_nan=False)) == told
