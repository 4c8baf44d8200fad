"""The data source against the records that the engine itself decodes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from store.errors import BadRequest
from store.files.store_reader import StoreReader
from store.query.tables.request import Request
from store.structures.commitlog.slices import split
from store.verbs.check.check import check_files
from tests.support.golden import golden
from tests.support.spark_stores import records_of, table


@pytest.mark.turns(4)
@pytest.mark.spark
@pytest.mark.parametrize("name", ["normal", "normal5", "ipv6", "batch"])
def test_every_column_is_what_the_format_page_decodes(spark: Any, name: str) -> None:
    path = str(golden(name).store)
    rows = {row.log_offset: row for row in table(spark, path, partitions="2").collect()}
    wanted = records_of(path)
    assert len(rows) == len(wanted)
    for log_offset, message in wanted:
        row = rows[log_offset]
        assert row.topic == message.topic
        assert (row.queue_id, row.queue_offset, row.size) == (
            message.queue_id,
            message.queue_offset,
            message.size,
        )
        assert (row.msg_id, row.uniq_key, row.tags) == (message.msg_id, message.uniq_key, message.tags)
        assert row["keys"] == message.keys
        assert (row.born_host, row.store_host) == (str(message.born_host), str(message.store_host))
        assert (bytes(row.body), row.properties) == (bytes(message.body), message.properties)


@pytest.mark.parametrize("parts", [1, 2, 7, 50])
def test_the_number_of_parts_does_not_change_the_records(parts: int) -> None:
    path = str(golden("normal").store)
    assert [o for o, _ in records_of(path, parts)] == [o for o, _ in records_of(path)]


@pytest.mark.spark
def test_pushed_filters_give_what_spark_would_give(spark: Any) -> None:
    frame = table(spark, str(golden("normal").store), body="none")
    condition = "topic = 'TopicA' and queue_id in (1, 2) and log_offset > 5000 and store_timestamp > '2001-01-01'"
    here = {row.log_offset for row in frame.where(condition).collect()}
    assert here == {
        r.log_offset for r in frame.collect() if r.topic == "TopicA" and r.queue_id in (1, 2) and r.log_offset > 5000
    }


@pytest.mark.turns(3)
@pytest.mark.spark
def test_from_and_to_are_log_offsets_or_times(spark: Any) -> None:
    path = str(golden("normal").store)
    everything = table(spark, path, body="none").select("log_offset").count()
    assert (
        table(spark, path, **{"from": "65536", "to": "131072"})
        .where("log_offset < 65536 or log_offset >= 131072")
        .count()
        == 0
    )
    assert table(spark, path, to="2000-01-01").count() == 0
    assert table(spark, path, **{"from": "2000-01-01"}).count() == everything


@pytest.mark.turns(4)
@pytest.mark.spark
def test_the_other_tables_hold_every_unit_entry_and_segment(spark: Any) -> None:
    path = str(golden("normal").store)
    assert table(spark, path, table="segments").count() == len(StoreReader(path).segments())
    units = table(spark, path, table="consumequeue")
    assert units.count() == table(spark, path).where("(sys_flag & 12) in (0, 8)").count()
    assert table(spark, path, table="index").count() == 1001
    assert table(spark, path, table="anomalies").count() == len(list(check_files(StoreReader(path)))) == 0


@pytest.mark.parametrize("name", ["consumequeue", "index", "segments", "anomalies"])
@pytest.mark.parametrize("bound", ["from", "to"])
def test_from_and_to_are_refused_where_they_mean_nothing(name: str, bound: str) -> None:
    with pytest.raises(BadRequest, match=f"{bound} can be given for messages only, not for {name}"):
        Request.from_options({"path": "/store", "table": name, bound: "0"})


@pytest.mark.parametrize(("text", "is_checked"), [("true", True), ("False", False), ("yes", None), ("", None)])
def test_crcs_are_checked_by_true_and_false_only(text: str, is_checked: bool | None) -> None:
    if is_checked is None:
        with pytest.raises(BadRequest, match="checkCrc is true or false"):
            Request.from_options({"path": "/store", "checkCrc": text})
    else:
        assert Request.from_options({"path": "/store", "checkCrc": text}).check_crc is is_checked


def test_cuts_cover_a_segment_once() -> None:
    parts = split(StoreReader(str(golden("normal").store)).segments(), 10_000)
    for before, part in itertools.pairwise(parts):
        assert part.log_start == before.log_stop
