"""A message found by whatever is known of it, and its life; held against all records of the log."""

from __future__ import annotations

import json
import shutil
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from store import Message, open_store
from store.files.byte_search import find_bytes
from store.formats.message import (
    COMPRESSED,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
    StoredMessage,
    decode_record,
    encode_record,
)
from store.verbs.find.life import life_of
from tests.cli.running import Run, rmqctl
from tests.conftest import CopyOf
from tests.engine.services.stores import unpack
from tests.support.golden import WITH_ANSWERS, golden
from tests.support.snapshots import snapshot
from tests.support.stores import SMALL, Clock, make_store


def find(*arguments: object, store: Path, code: int = 0) -> Any:
    run = rmqctl("--format", "json", "find", *arguments, store=store)
    assert run.code == code, run.err
    return run.json


def offsets(*arguments: object, store: Path, code: int = 0) -> list[int]:
    return [row["log_offset"] for row in find("--max", "1000", *arguments, store=store, code=code)["messages"]]


def records(root: Path) -> list[dict[str, Any]]:
    run = rmqctl("--format", "jsonl", "dump", "commitlog", store=root)
    return [row for row in run.rows if row["kind"] == "record"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("find") / "store", 150)


def test_a_place_that_no_file_has_has_no_position(copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    shutil.rmtree(root / "consumequeue")
    places = find("--max", "1", "TopicA", store=root, code=1)["places"]
    assert {place["position"] for place in places if place["place"].startswith("queue entry")} == {None}


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_ANSWERS)
def test_every_key_of_a_real_store_is_found(name: str) -> None:
    root = golden(name).store
    # A broker gives rolled-back records no entry in the index.
    found = {
        row["log_offset"]: row for row in records(root) if row["sys_flag"] & TRANSACTION_MASK != TRANSACTION_ROLLBACK
    }
    keys = sorted({key for row in found.values() for key in row["keys"]})[:4]
    for key in keys:
        expected = [place for place, row in found.items() if key in row["keys"] or key == row["uniq_key"]]
        assert set(expected) <= set(offsets(key, "--no-life", store=root, code=int(name == "no-derived")))
    everything = [row["log_offset"] for row in records(root) if keys[0] in row["keys"]]
    assert everything == offsets(keys[0], "--no-life", "--scan", store=root, code=int(name in ("torn", "no-derived")))


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("damage", "codes"),
    [
        ("none", (0, 0, 0, 0)),
        ("no index", (1, 1, 1, 1)),
        ("no queues", (1, 1, 1, 1)),
        ("first index file", (1, 0, 0, 0)),
        ("last index file", (0, 0, 0, 1)),
        ("middle", (0, 1, 0, 0)),
    ],
)
def test_a_key_is_found_whatever_the_index_covers(tmp_path: Path, damage: str, codes: tuple[int, ...]) -> None:
    """A message that lacks its entry in queue or index is found, and what it lacks is exit code 1."""
    root = make_store(tmp_path / "store", 150)
    files = sorted((root / "index").iterdir())
    assert len(files) > 3
    if damage == "no index":
        shutil.rmtree(root / "index")
    elif damage == "no queues":
        shutil.rmtree(root / "consumequeue")
    elif damage != "none":
        files[{"first index file": 0, "last index file": -1, "middle": 1}[damage]].unlink()
    for number, code in zip((0, 40, 75, 149), codes, strict=True):
        (row,) = find(f"k{number}", store=root, code=code)["messages"]
        assert row["uniq_key"] == f"U{number}"
    assert len(offsets("all", "--no-life", store=root, code=max(codes))) == 150


@pytest.mark.turns(3)
@pytest.mark.parametrize("lost", ["consumequeue/TopicA", "consumequeue/TopicB/1", "consumequeue"])
def test_a_key_of_several_topics_is_found_in_those_that_lost_their_folder_too(lost: str, copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    whole = offsets("all", "--no-life", store=root)
    shutil.rmtree(root / lost)
    code = int(lost != "consumequeue/TopicB/1")
    found = offsets("all", "--no-life", store=root, code=code)
    # Without any queue the log is scanned, which also finds messages that were rolled back: a broker indexes none.
    assert set(found) >= set(whole)
    assert (found == whole) == (lost != "consumequeue")
    assert find("order130", store=root, code=code)["life"]


def test_it_says_what_came_from_the_index_and_what_from_a_scan(store: Path) -> None:
    answer = find("k7", store=store)
    assert answer["indexed_bytes"] > 0
    stretches = answer["searched"]
    assert [one["stop"] for one in stretches[:-1]] == [one["start"] for one in stretches[1:]]
    assert answer["indexed_bytes"] + answer["scanned_bytes"] == stretches[-1]["stop"] - stretches[0]["start"]
    assert answer["indexed_bytes"] == sum(one["size_bytes"] for one in stretches if one["how"] == "index")
    assert {one["how"] for one in find("k7", "--scan", store=store)["searched"]} == {"scan"}


@pytest.mark.parametrize(
    ("limit", "count", "note"),
    [
        (1, 1, "only the first 1 message is shown"),
        (2, 2, "only the first 2 messages are shown"),
        (3, 3, ""),
        (4, 3, ""),
    ],
)
def test_messages_of_a_condition_are_shown_up_to_the_limit(limit: int, count: int, note: str, store: Path) -> None:
    run = rmqctl("find", "--where", "queue_id = 0 and queue_offset < 3", "--limit", limit, "--no-life", store=store)
    titles = [line for line in run.out.splitlines() if line.endswith(":")]
    assert (run.code, titles[:2]) == (0, ["messages:", "places:"])
    assert run.out.startswith(f"{count} message{'s' * (count > 1)} found as ")
    assert run.err == (f"{note}; --limit shows more\n" if note else "")


def test_a_message_id_leads_to_its_record(store: Path) -> None:
    row = records(store)[60]
    answer = find(row["msg_id"], store=store)
    assert (answer["searched_as"], answer["messages"][0]["log_offset"]) == ("message id", row["log_offset"])


def test_any_text_is_found_in_bodies(store: Path) -> None:
    answer = find("message 77 ", store=store)
    assert (answer["searched_as"], answer["messages"][0]["uniq_key"]) == ("text", "U77")
    assert rmqctl("find", "nowhere to be found", store=store).code == 1


def test_a_pattern_is_searched_in_bodies_only_and_in_compressed_ones(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root, settings=SMALL, read_only=False) as opened:
        opened.put(Message.of("T", zlib.compress(b"amount: 4711"), sys_flag=COMPRESSED, uniq_key="zipped"))
        opened.put(Message.of("T", b"amount: 4712", uniq_key="plain"))
        opened.put(Message.of("T", b"", uniq_key="amount: 4713"))
    found = find("--body", r"amount: \d{4}", store=root)["messages"]
    assert [row["uniq_key"] for row in found] == ["zipped", "plain"]
    assert rmqctl("find", "--body", "(", store=root).code == 2


def test_a_condition_is_asked_of_the_messages(store: Path) -> None:
    assert len(offsets("--where", "queue_id = 1 and tags = 'tag1'", "--no-life", store=store)) == 50
    assert rmqctl("find", "--where", "size >", store=store).code == 2


def test_places_are_those_in_the_files(store: Path) -> None:
    assert [place["position"] for place in find("k0", store=store)["places"] if place["place"] == "record"] == [0]
    answer = find("k50", store=store)
    assert answer["wrong_place_count"] == 0
    row, places = answer["messages"][0], {place["place"]: place for place in answer["places"]}
    raw = (store / places["record"]["file"]).read_bytes()[places["record"]["position"] :]
    assert int.from_bytes(raw[28:36], "big") == row["log_offset"]
    unit = places[f"queue entry {row['queue_offset']} of T/{row['queue_id']}"]
    assert int.from_bytes((store / unit["file"]).read_bytes()[unit["position"] :][:8], "big") == row["log_offset"]
    entries = [place for name, place in places.items() if name.startswith("index entry")]
    assert len(entries) == 3
    for entry in entries:
        data = (store / entry["file"]).read_bytes()[entry["position"] :]
        assert int.from_bytes(data[4:12], "big") == row["log_offset"]


@pytest.fixture
def rolled_back(tmp_path: Path) -> Path:
    """A sound store with order40 to order49, of which each fourth was rolled back, and order4 rolled back."""
    root = tmp_path / "store"
    with open_store(root, settings=SMALL, read_only=False, clock=Clock()) as opened:
        for number in (4, *range(40, 50)):
            sys_flag = 0 if number % 4 else TRANSACTION_ROLLBACK
            message = Message.of("T", f"body {number}", keys=[f"order{number}", "all"])
            assert opened.put(replace(message, sys_flag=sys_flag)).is_ok
    return root


def test_a_key_of_a_rolled_back_message_alone_is_found_as_the_key(rolled_back: Path) -> None:
    answer = find("order4", store=rolled_back)
    assert (answer["searched_as"], [one["keys"] for one in answer["messages"]]) == ("key", [["order4", "all"]])
    assert answer["wrong_place_count"] == 0
    assert [place["place"] for place in answer["places"]] == ["record"]


def test_messages_that_only_hold_the_text_are_found_as_text(rolled_back: Path) -> None:
    answer = find("rder4", store=rolled_back)
    assert (answer["searched_as"], len(answer["messages"]), answer["wrong_place_count"]) == ("text", 11, 0)


def test_a_unit_that_is_gone_or_wrong_is_named(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 9, queues=1)
    queue = root / "consumequeue/T/0/00000000000000000000"
    queue.write_bytes(queue.read_bytes()[:60].ljust(400, b"\0"))
    run = rmqctl("--format", "json", "find", "k5", store=root)
    states = {place["place"]: place["state"] for place in run.json["places"]}
    assert (run.code, states["queue entry 5 of T/0"]) == (1, "it was not written")


def test_groups_that_consumed_it_are_named(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 9, queues=1)
    (root / "config").mkdir()
    table = {"offsetTable": {"T@past": {"0": 6}, "T@waiting": {"0": 5}, "Other@g": {"0": 9}}}
    (root / "config/consumerOffset.json").write_text(json.dumps(table))
    groups = find("k5", store=root)["groups"]
    assert {one["group"]: one["is_consumed"] for one in groups} == {"past": True, "waiting": False}


def stored(topic: str, at: int, sys_flag: int = 0) -> StoredMessage:
    message = Message.of(topic, b"x", uniq_key="U")
    raw = encode_record(
        message, topic=topic.encode(), sys_flag=sys_flag, queue_offset=0, log_offset=at, store_timestamp_ms=at
    )
    return decode_record(raw)


@pytest.mark.parametrize(
    ("topics", "roles"),
    [
        ([("Orders", 0)], ["sent"]),
        ([("SCHEDULE_TOPIC_XXXX", 0), ("Orders", 0)], ["delayed", "delivered"]),
        ([("rmq_sys_wheel_timer", 0), ("Orders", 0)], ["timed", "delivered"]),
        ([("RMQ_SYS_TRANS_HALF_TOPIC", 0), ("Orders", 8)], ["half", "committed"]),
        ([("RMQ_SYS_TRANS_HALF_TOPIC", 0), ("TRANS_CHECK_MAX_TIME_TOPIC", 0)], ["half", "given up"]),
        ([("Orders", 0), ("%RETRY%g", 0), ("%DLQ%g", 0)], ["sent", "retry", "dead letter"]),
        ([("Orders", 12)], ["rolled back"]),
    ],
)
def test_the_stages_of_a_life(topics: list[tuple[str, int]], roles: list[str]) -> None:
    messages = [stored(topic, number * 1000, flag) for number, (topic, flag) in enumerate(topics)]
    assert [stage.role for stage in life_of(reversed(messages))] == roles


def test_a_delayed_message_is_followed_to_its_delivery(tmp_path: Path) -> None:
    root, _ = unpack("services", tmp_path)
    delivered = [row for row in records(root) if "DELAY" in row["properties"] and row["topic"] != "SCHEDULE_TOPIC_XXXX"]
    stages = find(delivered[0]["uniq_key"], store=root)["life"]
    assert [stage["role"] for stage in stages][:2] == ["delayed", "delivered"]


@pytest.mark.parametrize("needle", [b"ab", b"aba", b"x" * 40, b"\0"])
def test_the_byte_search_finds_what_a_naive_one_finds(needle: bytes) -> None:
    data = (b"abababxxab" * 30 + b"\0" + b"x" * 100 + b"ab") * 3
    expected, at = [], 5
    while (at := data.find(needle, at, len(data) - 7)) >= 0:
        expected.append(at)
        at += len(needle)
    assert list(find_bytes(memoryview(data), needle, 5, len(data) - 7)) == expected


def test_damage_keeps_nothing_behind_it_from_being_found(copy_of: CopyOf) -> None:
    _, root = copy_of("corrupt-mid")
    last = records(root)[-1]
    before = snapshot(root)
    assert offsets(last["uniq_key"] or last["msg_id"], store=root)
    assert snapshot(root) == before


@pytest.mark.parametrize("arguments", [(), ("k1", "--where", "true"), ("",)])
def test_a_wrong_question_is_a_usage_error(store: Path, arguments: tuple[str, ...]) -> None:
    run: Run = rmqctl("find", *arguments, store=store)
    assert (run.code, len(run.err.splitlines())) == (2, 1)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("needle", 2),
        ("^needle", 1),
        ("needle$", 1),
        ("nowhere", 0),
        (r"(?<!a )needle", 1),
        ("need++le", 2),
        ("nee.le", 2),
    ],
)
def test_a_pattern_is_held_against_each_body_alone(pattern: str, found: int, tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root, settings=SMALL, read_only=False) as store:
        for body in (b"needle first", b"a needle", b"hay", b"more hay"):
            store.put(Message.of("T", body))
    run = rmqctl("--format", "json", "find", "--body", pattern, store=root)
    assert (run.json["message_count"], run.code) == (found, 0 if found else 1)


def test_the_lives_of_the_first_five_messages_are_searched(tmp_path: Path) -> None:
    with open_store(tmp_path, settings=SMALL, read_only=False) as store:
        for number in range(12):
            assert store.put(Message.of("T", properties={"KEYS": "K", "UNIQ_KEY": f"U{number % 6}"})).is_ok
    life = find("K", store=tmp_path)["life"]
    assert [row["uniq_key"] for row in life] == [f"U{number}" for number in range(5) for _ in range(2)]
