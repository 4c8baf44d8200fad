"""export | put: the messages of one store in another, as they were, as a producer sends them, or somewhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rmqctl.exit_codes import OK, USAGE
from store import open_store
from tests.bench.round_trip import digest, messages
from tests.cli.running import rmqctl
from tests.support.golden import golden

# The size, because a property string may end with a separator or without.
OF_THE_PLACE = ("log_offset", "msg_id", "store_timestamp_ms", "size")


def exported(store: Path, *words: object) -> list[dict[str, Any]]:
    run = rmqctl("export", "--to", "-", "--as", "jsonl", *words, store=store)
    assert run.code == OK, run.err
    return run.rows


def replayed(rows: list[dict[str, Any]], store: Path, *words: object) -> list[dict[str, Any]]:
    """The messages of a new store after `rows` were put there."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    run = rmqctl("put", "--from", "-", *words, store=store, stdin=lines.encode())
    assert run.code == OK, run.err
    return exported(store)


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


@pytest.mark.parametrize("name", ["normal", "normal5", "ipv6", "batch", "many"])
def test_what_was_stored_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    # A new store is one of the 4.x line, which takes no longer topics.
    rows = exported(golden(name).store, "--where", "length(topic) < 128")
    found = replayed(rows, tmp_path / "store", "--as-stored")
    assert [without(row, *OF_THE_PLACE) for row in found] == [without(row, *OF_THE_PLACE) for row in rows]


def test_store_times_are_kept_when_that_is_asked_for(tmp_path: Path) -> None:
    rows = exported(golden("normal").store)
    found = replayed(rows, tmp_path / "store", "--as-stored", "--keep-times")
    assert [row["store_timestamp_ms"] for row in found] == [row["store_timestamp_ms"] for row in rows]


@pytest.mark.parametrize("times", [(), ("--keep-times",)])
def test_as_new_a_delayed_message_is_sent_to_its_topic_and_delayed_again(tmp_path: Path, times: tuple[str]) -> None:
    rows = exported(golden("normal").store, "--where", "topic = 'SCHEDULE_TOPIC_XXXX'")
    found = replayed(rows, tmp_path / "store", *times)
    names = ("topic", "queue_id", "body", "properties", "tags")
    assert [{name: row[name] for name in names} for row in found] == [
        {name: row[name] for name in names} for row in rows
    ]
    assert {row["topic"] for row in found} == {"SCHEDULE_TOPIC_XXXX"}
    assert all("REAL_TOPIC" in row["properties"] for row in found)


def test_topics_and_queues_are_mapped(tmp_path: Path) -> None:
    rows = exported(golden("normal").store, "--where", "topic in ('TopicA', 'TopicB')")
    words = ("--topic-map", "TopicA=Copy", "--queue-map", "1=7", "--queue-map", "TopicB:1=8")
    found = replayed(rows, tmp_path / "store", *words)
    wanted = {("TopicA", 1): ("Copy", 7), ("TopicB", 1): ("TopicB", 8)}
    for before, after in zip(rows, found, strict=True):
        place = before["topic"], before["queue_id"]
        other = {"TopicA": "Copy"}.get(place[0], place[0]), place[1]
        assert (after["topic"], after["queue_id"]) == wanted.get(place, other)


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (("--topic-map", "A"), "OLD=NEW"),
        (("--queue-map", "a=b"), "queue ids"),
        (("--queue-map", "1"), "OLD=NEW"),
    ],
)
def test_a_map_that_is_none_is_refused_before_the_store_is_created(
    tmp_path: Path, words: tuple[str, ...], word: str
) -> None:
    run = rmqctl("put", "--from", "-", *words, store=tmp_path / "store")
    assert (run.code, word in run.err) == (USAGE, True)
    assert not (tmp_path / "store").exists()


def test_the_options_of_a_replay_are_for_many_messages(tmp_path: Path) -> None:
    assert rmqctl("put", "T", "x", "--as-stored", store=tmp_path / "store").code == USAGE


def test_lines_for_a_stream_that_is_no_utf_8_are_ascii() -> None:
    from rmqctl.messages import message_line
    from tests.spark.test_tables import records_of

    lines = [message_line(message.raw, encoding="latin-1") for _, message in records_of(str(golden("normal").store))]
    assert all(line.isascii() for line in lines)
    assert any("\\u" in line for line in lines)


def test_only_lines_go_to_stdout() -> None:
    run = rmqctl("export", "--to", "-", "--as", "parquet", store=golden("normal").store)
    assert (run.code, "only JSON lines" in run.err) == (USAGE, True)


def test_messages_of_random_bytes_come_back_byte_for_byte(tmp_path: Path) -> None:
    with open_store(tmp_path / "before", read_only=False) as store:
        assert {store.put(message).status.value for message in messages(300, seed=1)} == {"PUT_OK"}
    replayed(exported(tmp_path / "before"), tmp_path / "after", "--as-stored")
    assert digest(tmp_path / "after") == digest(tmp_path / "before")


def test_bodies_that_were_damaged_are_named_when_they_are_put(tmp_path: Path) -> None:
    lines = [json.dumps({"topic": "T", "body_text": "b", "crc_ok": is_sound}) for is_sound in (True, False, False)]
    (tmp_path / "lines").write_text("\n".join(lines))
    run = rmqctl("put", "--from", tmp_path / "lines", store=tmp_path / "store")
    assert (run.code, "2 lines of --from with crc_ok false" in run.err) == (OK, True), run.err
