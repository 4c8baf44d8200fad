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

from rmqctl.exit_codes import USAGE
from rmqctl.messages import message_line
from store import Message, open_store
from store.query.spark.described import to_json_row
from store.query.spark.query import export_lines, register_views, run_query, write_export
from store.query.tables.export import Export
from store.query.tables.schema import MESSAGES, TABLES
from tests.support.five_stores import five
from tests.support.golden import golden
from tests.support.processes import command_line, run
from tests.support.spark_stores import records_of
from tests.support.stores import SMALL

NORMAL = [str(golden("normal").store)]


def asked(spark: Any, text: str, limit: int = 10) -> list[dict[str, Any]]:
    _, rows = run_query(spark, NORMAL, text, limit=limit)
    return rows


def told(spark: Any, text: str) -> list[dict[str, Any]]:
    """Answers of Spark's own words, as `run_query` hands them over."""
    register_views(spark, NORMAL, columns_of=text, tables_of=text)
    frame = spark.sql(text)
    return [to_json_row(row, frame.schema) for row in frame.collect()]


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
    assert told(spark, "select cast('ab' as binary) b, null n") == [{"b": "YWI=", "n": None}]


@pytest.mark.turns(4)
@pytest.mark.spark
def test_an_export_goes_on_over_what_a_killed_one_left(spark: Any, tmp_path: Path) -> None:
    (tmp_path / ".out.part").mkdir()
    write_export(spark, NORMAL, tmp_path / "out", Export("jsonl", "topic = 'TopicA'", to_line=message_line))
    lines = [line for path in (tmp_path / "out").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert len(lines) == 160
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.turns(4)
@pytest.mark.spark
def test_a_line_names_the_outer_record(spark: Any, tmp_path: Path) -> None:
    where = "topic = 'BatchA' and queue_id = 0 and queue_offset between 4 and 6"
    stores, outer = [str(five("bcq") / "store")], "outer_queue_offset"
    write_export(spark, stores, tmp_path / "out", Export("jsonl", where, [outer], to_line=message_line))
    files = (tmp_path / "out" / f"{outer}=4").glob("*.jsonl")
    lines = [line for path in files for line in path.read_text().splitlines()]
    assert sorted((row["queue_offset"], row[outer]) for row in map(json.loads, lines)) == [(4, 4), (5, 4), (6, 4)]


@pytest.mark.turns(4)
@pytest.mark.spark
def test_a_limit_is_of_all_parts(spark: Any, tmp_path: Path) -> None:
    write_export(spark, NORMAL, tmp_path / "out", Export("jsonl", limit=3, to_line=message_line))
    assert sum(len(path.read_text().splitlines()) for path in (tmp_path / "out").glob("*.jsonl")) == 3


@pytest.mark.leaves_damage  # store times that go back
@pytest.mark.turns(3)
@pytest.mark.spark
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_times_beyond_those_of_a_table_are_counted_by_column(kind: str, spark: Any, tmp_path: Path) -> None:
    with open_store(tmp_path / "s", read_only=False, settings=SMALL) as store:
        for born_ms, stored_ms in ((1 << 62, 1), (-(1 << 62), 1 << 62), (1, 1)):
            store.put_replayed(Message.of("T", "x", born_timestamp_ms=born_ms), store_timestamp_ms=stored_ms)
    counts: dict[str, int] = {}
    export = Export(kind, to_line=message_line, on_null_times=counts.update)
    write_export(spark, [str(tmp_path / "s")], tmp_path / "out", export)
    assert counts == ({} if kind == "jsonl" else {"born_timestamp": 2, "store_timestamp": 1})


@pytest.mark.turns(2)
@pytest.mark.spark
@pytest.mark.parametrize(("kind", "with_body"), [("csv", True), ("csv", False), ("jsonl", True), ("lines", True)])
def test_bodies_that_cannot_be_decompressed_are_counted(kind: str, with_body: bool, spark: Any, tmp_path: Path) -> None:
    found: list[int] = []
    form = "csv" if kind == "csv" else "jsonl"
    export = Export(form, with_body=with_body, to_line=lambda record, outer: "", on_problems=found.append)
    if kind == "lines":
        assert len(list(export_lines(spark, NORMAL, export))) == 500
    else:
        write_export(spark, NORMAL, tmp_path / "out", export)
    assert sum(found) == 25 * with_body


@pytest.mark.turns(2)
@pytest.mark.spark
@pytest.mark.parametrize("kind", ["csv", "jsonl", "lines"])
def test_messages_inside_records_of_several_are_counted(kind: str, spark: Any, tmp_path: Path) -> None:
    inner: list[int] = []
    stores = [str(five("bcq") / "store")]
    form = "csv" if kind == "csv" else "jsonl"
    export = Export(form, to_line=lambda record, outer: f"{outer}", on_inner=inner.append)
    if kind == "lines":
        lines = list(export_lines(spark, stores, export))
        assert (len(lines), lines.count("None\n")) == (594, 190)
    else:
        write_export(spark, stores, tmp_path / "out", export)
    assert inner == [404]


@pytest.mark.turns(3)
@pytest.mark.spark
def test_a_csv_export_reads_back_as_what_the_records_hold(spark: Any, tmp_path: Path) -> None:
    write_export(spark, NORMAL, tmp_path / "out", Export("csv"))
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


@pytest.mark.turns(3)
@pytest.mark.spark
def test_a_table_is_described_with_all_its_columns(spark: Any) -> None:
    assert [row["col_name"] for row in asked(spark, "describe messages", limit=100)] == list(MESSAGES)
    assert len(asked(spark, "show columns in messages", limit=100)) == len(MESSAGES)
    assert {row["tableName"] for row in asked(spark, "show tables")} >= set(TABLES)


@pytest.mark.turns(4)
@pytest.mark.spark
def test_a_natural_join_goes_by_all_columns_of_one_name(spark: Any) -> None:
    (row,) = asked(spark, "select count(*) n from messages m natural join consumequeue c")
    (wanted,) = asked(
        spark,
        "select count(*) n from messages m join consumequeue c using (topic, queue_id, queue_offset, log_offset, size)",
    )
    assert row == wanted


def test_sql_writes_nothing(tmp_path: Path) -> None:
    text = f"insert overwrite directory '{tmp_path / 'out'}' using csv select topic from messages"
    done = run(command_line(golden("normal").store, "sql", text))
    assert (done.code, len(done.err.splitlines())) == (USAGE, 1), done.err
    assert "queries only" in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.spark
def test_a_moment_inside_a_struct_is_told_as_one_outside(spark: Any) -> None:
    (row,) = told(spark, "select t, array(named_struct('t', t)) a from (select min(store_timestamp) t from messages)")
    assert row["a"] == [{"t": row["t"]}]


@pytest.mark.turns(4)
@pytest.mark.spark
@pytest.mark.parametrize("partition_by", [[], ["day"]], ids=["together", "by day"])
def test_an_export_may_ask_for_days(spark: Any, tmp_path: Path, partition_by: list[str]) -> None:
    (first,) = asked(spark, "select cast(cast(min(store_timestamp) as date) as string) day from messages")
    for name, where in {"found": f"day = '{first['day']}'", "none": "day < '2000-01-01'"}.items():
        export = Export("jsonl", where, partition_by, to_line=message_line)
        write_export(spark, NORMAL, tmp_path / name, export)
    lines = [line for path in (tmp_path / "found").rglob("*.jsonl") for line in path.read_text().splitlines()]
    assert lines
    assert "day" not in json.loads(lines[0])
    assert [path.name for path in (tmp_path / "found").glob("day=*")] == [f"day={first['day']}" for _ in partition_by]
    assert not any(path.read_text() for path in (tmp_path / "none").rglob("*.jsonl"))
