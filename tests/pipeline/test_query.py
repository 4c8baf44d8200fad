"""What sql hands over: every column of the answer, moments in UTC."""

from __future__ import annotations

import csv
import json
import time
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from store.pipeline.query import described, export, query
from tests.pipeline.test_tables import records_of
from tests.support.golden import golden


def asked(spark: Any, text: str) -> list[dict[str, Any]]:
    _, rows = query(spark, [str(golden("normal").store)], text, limit=10)
    return list(described(rows))


@pytest.mark.spark
def test_columns_of_the_same_name_are_told_apart(spark: Any) -> None:
    assert asked(spark, "select 1 a, 2 a, 3 b, 4 a") == [{"a": 1, "a (2)": 2, "b": 3, "a (3)": 4}]


@pytest.mark.spark
def test_a_moment_is_told_in_utc_wherever_the_machine_stands(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        (row,) = asked(spark, "select min(store_timestamp) t, unix_millis(min(store_timestamp)) ms from messages")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert row["t"].endswith("Z")
    assert datetime.fromisoformat(row["t"]) == datetime.fromtimestamp(row["ms"] / 1000, UTC)


@pytest.mark.spark
def test_bytes_and_nothing_are_told_as_json_has_them(spark: Any) -> None:
    assert asked(spark, "select cast('ab' as binary) b, null n") == [{"b": "YWI=", "n": None}]


@pytest.mark.spark
def test_an_export_goes_on_over_what_a_killed_one_left(spark: Any, tmp_path: Path) -> None:
    (tmp_path / ".out.part").mkdir()
    export(spark, [str(golden("normal").store)], tmp_path / "out", "jsonl", where="topic = 'TopicA'")
    lines = [line for path in (tmp_path / "out").glob("*.json") for line in path.read_text().splitlines()]
    assert len(lines) == 160
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.spark
def test_a_csv_export_reads_back_as_what_the_records_hold(spark: Any, tmp_path: Path) -> None:
    export(spark, [str(golden("normal").store)], tmp_path / "out", "csv")
    rows = []
    for path in (tmp_path / "out").glob("*.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            rows += list(csv.DictReader(file))
    wanted = dict(records_of(str(golden("normal").store)))
    assert len(rows) == len(wanted)
    for row in rows:
        message = wanted[int(row["log_offset"])]
        assert (row["topic"], row["body"]) == (message.topic, b64encode(bytes(message.body)).decode())
        assert json.loads(row["properties"] or "{}") == message.properties
        assert (row["tags"], json.loads(row["keys"] or "[]")) == (message.tags or "", message.keys)
