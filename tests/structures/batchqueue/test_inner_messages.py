"""Messages inside a record of several: one row each wherever messages are shown, and the record with --outer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from store import open_store
from tests.cli.running import rmqctl
from tests.support.five_stores import five

ROOT = five("bcq") / "store"
IN_RECORD_4 = "topic = 'BatchA' and queue_id = 0 and queue_offset between 4 and 6"


def answer(*words: object) -> dict[str, Any]:
    return rmqctl("--format", "json", *words, store=ROOT).json


def every_message() -> list[tuple[str, int, int, bytes]]:
    with open_store(ROOT) as store:
        return [
            (topic, queue_id, one.queue_offset, one.body)
            for topic in ("BatchA", "BatchB")
            for queue_id in store.queue_ids(topic)
            for one in store.messages(topic, queue_id)
        ]


def test_sql_has_a_row_for_every_message_of_a_batch_queue() -> None:
    query = "select topic, queue_id, queue_offset from messages where topic like 'Batch%' order by 1, 2, 3"
    rows = answer("sql", query, "--limit", 2000)["rows"]
    assert [tuple(row.values()) for row in rows] == [message[:3] for message in every_message()]


def test_a_row_names_its_outer_record() -> None:
    query = f"select queue_offset, outer_queue_offset, log_offset from messages where {IN_RECORD_4} order by 1"
    assert [tuple(row.values()) for row in answer("sql", query)["rows"]] == [(4, 4, 7929), (5, 4, 7929), (6, 4, 7929)]


@pytest.mark.parametrize(("words", "count"), [((), 594), (("--outer",), 258)])
def test_an_export_has_a_line_for_each_message_or_with_outer_for_each_record(
    words: tuple[str, ...], count: int
) -> None:
    lines = rmqctl("export", "--to", "-", "--as", "jsonl", *words, store=ROOT).out.splitlines()
    assert len(lines) == count
    assert {json.loads(line)["topic"] for line in lines} == {"BatchA", "BatchB", "PlainT"}


def test_exported_inner_messages_are_put_into_another_store_in_their_order(tmp_path: Path) -> None:
    lines = rmqctl("export", "--to", "-", "--as", "jsonl", "--where", "topic = 'BatchB'", store=ROOT).out
    (tmp_path / "lines").write_text(lines, encoding="utf-8")
    run = rmqctl("put", "--from", tmp_path / "lines", "--as-stored", store=tmp_path / "store")
    assert run.code == 0, run.err
    with open_store(tmp_path / "store") as store:
        found = [one.body for one in store.messages("BatchB", 0)]
    assert found == [body for topic, _, _, body in every_message() if topic == "BatchB"]


def test_find_gives_the_message_inside_whose_unique_key_is_asked_for() -> None:
    found = answer("find", "5DE241593E4E58A3AD0FC262B85DA6DE")
    assert [(one["queue_offset"], one["outer_queue_offset"]) for one in found["messages"]] == [(5, 4)]
    assert {place["state"] for place in found["places"] if place["place"].startswith(("record", "unit"))} == {"ok"}


def test_find_by_a_condition_gives_single_messages_and_with_outer_records() -> None:
    words = ("find", "--where", IN_RECORD_4, "--no-life")
    assert [one["queue_offset"] for one in answer(*words)["messages"]] == [4, 5, 6]
    assert [(one["queue_offset"], one["size"]) for one in answer(*words, "--outer")["messages"]] == [(4, 694)]


def test_index_query_gives_the_messages_of_a_record_by_its_key() -> None:
    [record] = answer("get", "BatchA", "--offset", 4, "--max", 1, "--outer")["messages"]
    found = answer("index-query", "BatchA", record["uniq_key"])["messages"]
    assert [one["queue_offset"] for one in found] == [4, 5, 6]
    outer = answer("index-query", "BatchA", record["uniq_key"], "--outer")["messages"]
    assert [one["uniq_key"] for one in outer] == [record["uniq_key"]]


def test_usage_counts_the_bytes_of_records_once() -> None:
    assert answer("usage")["size_bytes"] == 67_972 + 29_855 + 40_843


@pytest.mark.parametrize("words", [[], ["--scan"]])
def test_find_finds_keys_that_no_index_holds(words: list[str]) -> None:
    root = five("bcq") / "store"
    with open_store(root) as store:
        messages = [one for queue in store.queues() for one in store.messages(queue.topic, queue.queue_id)]
    expected = {(one.topic, one.queue_id, one.queue_offset) for one in messages if "k15" in one.keys}
    inner = [one for one in messages if one.outer_queue_offset is not None and "k15" in one.keys]
    assert inner
    found = rmqctl("--format", "json", "find", "k15", *words, store=root).json["messages"]
    assert {(one["topic"], one["queue_id"], one["queue_offset"]) for one in found} == expected


LAY = "404 messages lay inside records of several"


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
def test_messages_put_out_of_their_records_are_counted_by_export_and_put(kind: str, tmp_path: Path) -> None:
    exported = rmqctl("export", "--to", tmp_path / "out", "--as", kind, store=ROOT)
    assert f"warning: {LAY}, and put as single messages they differ: --outer keeps such" in exported.err
    put = rmqctl("put", "--from", tmp_path / "out", "--as-stored", store=tmp_path / "store")
    assert f"warning: {LAY} and were put as single messages: export --outer keeps such records" in put.err
    put = rmqctl("put", "--from", tmp_path / "out", store=tmp_path / "new")
    assert (put.code, "lay inside" in put.err) == (0, False)


def test_a_line_names_the_outer_record() -> None:
    lines = rmqctl("export", "--to", "-", "--as", "jsonl", "--where", IN_RECORD_4, store=ROOT).out.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(row["queue_offset"], row["outer_queue_offset"], row["log_offset"]) for row in rows] == [
        (4, 4, 7929),
        (5, 4, 7929),
        (6, 4, 7929),
    ]


def target_with_types(root: Path) -> Path:
    (root / "commitlog").mkdir(parents=True)
    shutil.copytree(ROOT / "config", root / "config")
    return root


def records(root: Path, where: str = "true") -> list[dict[str, Any]]:
    lines = rmqctl("export", "--to", "-", "--as", "jsonl", "--outer", "--where", where, store=root).out.splitlines()
    changed = ("log_offset", "msg_id", "store_timestamp_ms")
    return [{name: value for name, value in json.loads(line).items() if name not in changed} for line in lines]


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
def test_records_of_several_come_back_as_they_were(kind: str, tmp_path: Path) -> None:
    exported = rmqctl("export", "--to", tmp_path / "out", "--as", kind, "--outer", store=ROOT)
    assert (exported.code, exported.err) == (0, "")
    target = target_with_types(tmp_path / "store")
    put = rmqctl("put", "--from", tmp_path / "out", "--as-stored", "--compat", "5.3", store=target)
    assert (put.code, put.err) == (0, "")
    assert records(target) == records(ROOT)
    assert rmqctl("check", store=target).code == 0
    with open_store(target) as store:
        assert [one.body for one in store.messages("BatchA", 0)] == [
            body for topic, queue_id, _, body in every_message() if (topic, queue_id) == ("BatchA", 0)
        ]


def test_a_record_of_several_takes_the_next_offsets_of_its_queue(tmp_path: Path) -> None:
    where = "topic = 'BatchA' and queue_id = 0 and queue_offset in (4, 10)"
    lines = rmqctl("export", "--to", "-", "--as", "jsonl", "--outer", "--where", where, store=ROOT).out
    (tmp_path / "lines").write_text(lines, encoding="utf-8")
    target = target_with_types(tmp_path / "store")
    put = rmqctl("put", "--from", tmp_path / "lines", "--as-stored", "--compat", "5.3", store=target)
    assert (put.code, put.err) == (0, "")
    assert rmqctl("check", store=target).code == 0
    counts = [int(json.loads(line)["properties"].get("INNER_NUM", 1)) for line in lines.splitlines()]
    assert [row["queue_offset"] for row in records(target)] == [0, *counts[:-1]]
    with open_store(target) as store:
        found = [one.queue_offset for one in store.messages("BatchA", 0)]
    assert found == list(range(sum(counts)))


def test_a_record_of_several_is_refused_where_no_queue_takes_it(tmp_path: Path) -> None:
    rmqctl("export", "--to", tmp_path / "out", "--as", "jsonl", "--outer", store=ROOT)
    put = rmqctl("--format", "json", "put", "--from", tmp_path / "out", "--as-stored", store=tmp_path / "store")
    refused = [row for row in put.json["results"] if row["status"] != "PUT_OK"]
    assert (put.code, len(refused), {row["status"] for row in refused}) == (1, 68, {"MESSAGE_ILLEGAL"})
    assert {row["reason"] for row in refused} == {
        f"the queues of {topic} take no record of several messages: give the topic the queue.type in "
        "config/topics.json that it had in the other store"
        for topic in ("BatchA", "BatchB")
    }
    put = rmqctl("put", "--from", tmp_path / "out", store=tmp_path / "new")
    assert (put.code, "records of several messages (export --outer) are no new messages" in put.err) == (2, True)
