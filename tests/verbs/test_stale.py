"""Records past the end of a segment: found, marked, exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rmqctl.commands import replay
from store import Message, open_store
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.message import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from store.verbs.stale import find_stale
from tests.cli.running import rmqctl
from tests.support.sessions import give, session
from tests.support.snapshots import snapshot
from tests.support.stores import SMALL, make_store, text_message

BIG = {**SMALL, "mappedFileSizeCommitLog": 65536}


def stale(root: Path, *options: str) -> Any:
    run = rmqctl("--format", "json", "stale", *options, store=root)
    assert run.code == (1 if run.json["lost_messages"] else 0), run.err
    return run.json


def cut(root: Path, kept: int) -> tuple[int, bytes]:
    """Zeros the head of record `kept`, as a recovery that cuts there does; gives its place and its old bytes."""
    segment = root / "commitlog/00000000000000000000"
    data, at = bytearray(segment.read_bytes()), 0
    for _ in range(kept):
        at += int.from_bytes(data[at : at + 4], "big")
    size = int.from_bytes(data[at : at + 4], "big")
    old = bytes(data[at : at + size])
    data[at : at + 8] = bytes(8)
    segment.write_bytes(data)
    return at, old


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store", 20, queues=1, **BIG)


def test_a_store_without_leftovers_has_none(store: Path) -> None:
    assert stale(store)["stale_messages"] == 0


def test_records_behind_a_cut_are_lost_unless_the_log_has_them(store: Path) -> None:
    cut(store, 15)
    answer = stale(store)
    assert (answer["stale_messages"], answer["lost_messages"]) == (4, 4)
    assert [row["uniq_key"] for row in answer["stale_records"]] == ["U16", "U17", "U18", "U19"]
    one = session()
    give(one, store=str(store))
    assert [len(list(replay._stale_records(one, topics))) for topics in (None, ["T"], ["U", "T"], ["U"])] == [
        4,
        4,
        4,
        0,
    ]
    chosen = ("lost", "T", 4), ("lost", "U", 0), ("duplicate", "T", 0), ("duplicate", "U", 0)
    for state, topic, count in chosen:
        assert stale(store, "--state", state, "--topic", topic)["stale_messages"] == count


def test_a_message_that_was_sent_again_is_a_duplicate_and_another_at_its_offset_overwrote_it(store: Path) -> None:
    cut(store, 10)
    for name in ("consumequeue/T/0", "index"):
        for path in (store / name).iterdir():
            path.unlink()
    with open_store(store, settings=BIG, read_only=False) as opened:
        assert opened.put(Message.of("T", b"x" * 8, uniq_key="short")).is_ok
        assert opened.put(text_message(15)).is_ok
    states = {row["uniq_key"]: row["state"] for row in stale(store)["stale_records"]}
    assert states["U15"] == "duplicate"
    assert states["U19"] == "lost"
    assert set(states.values()) == {"duplicate", "lost"}


def test_a_queue_offset_that_was_given_again_is_overwritten(store: Path, tmp_path: Path) -> None:
    at, _ = cut(store, 10)
    segment = store / "commitlog/00000000000000000000"
    data = bytearray(segment.read_bytes())
    with open_store(tmp_path / "other", settings=BIG, read_only=False) as other:
        put = other.put(Message.of("T", b"", uniq_key="new"))
        assert put.is_ok
    record = bytearray((tmp_path / "other/commitlog/00000000000000000000").read_bytes()[: put.size])
    record[20:28] = (13).to_bytes(8, "big")
    record[28:36] = at.to_bytes(8, "big")
    data[at : at + len(record)] = record
    data[at + len(record) : at + len(record) + 8] = bytes(8)
    segment.write_bytes(data)
    rows = {row["uniq_key"]: row for row in stale(store)["stale_records"]}
    assert (rows["U13"]["state"], rows["U13"]["live_log_offset"]) == ("overwritten", at)
    assert rows["U14"]["state"] == "lost"


@pytest.mark.parametrize("state", [TRANSACTION_PREPARED, TRANSACTION_ROLLBACK])
def test_a_half_message_overwrites_none_and_is_lost_where_no_other_record_has_it(tmp_path: Path, state: int) -> None:
    root = make_store(tmp_path / "store", 5, queues=1, **BIG)
    with open_store(root, settings=BIG, read_only=False) as opened:
        for name in ("cut", "half"):
            assert opened.put(Message.of("T", b"x", uniq_key=name, sys_flag=state)).is_ok
    cut(root, 5)
    (row,) = stale(root)["stale_records"]
    assert (row["uniq_key"], row["queue_offset"], row["state"]) == ("half", 0, "lost")


def test_another_topic_s_copy_with_the_same_unique_key_is_no_duplicate(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", settings=BIG, read_only=False) as opened:
        for topic in ("T", "%RETRY%g", "T"):
            assert opened.put(Message.of(topic, b"x", uniq_key="same")).is_ok
        assert opened.put(Message.of("%RETRY%g", b"x", uniq_key="other")).is_ok
    cut(tmp_path / "store", 1)
    rows = {(row["topic"], row["uniq_key"]): row["state"] for row in stale(tmp_path / "store")["stale_records"]}
    assert rows == {("T", "same"): "duplicate", ("%RETRY%g", "other"): "lost"}


def test_what_is_lost_is_exported_and_can_be_put_again(store: Path, tmp_path: Path) -> None:
    cut(store, 15)
    before, target = snapshot(store), tmp_path / "lost.jsonl"
    assert stale(store, "--state", "lost", "--to", str(target))["written_to"] == str(target)
    assert snapshot(store) == before
    assert [json.loads(line)["uniq_key"] for line in target.read_text().splitlines()] == ["U16", "U17", "U18", "U19"]
    run = rmqctl("--format", "json", "put", "--from", target, store=tmp_path / "new")
    assert run.code == 0, run.err
    assert rmqctl("stale", "--to", target, store=store).code == 2
    again = tmp_path / "again.jsonl"
    assert f"4 messages written to {again}\n" in rmqctl("stale", "--state", "lost", "--to", again, store=store).err


def test_a_limit_cuts_the_rows_and_the_file_but_no_count(store: Path, tmp_path: Path) -> None:
    cut(store, 15)
    whole, target = stale(store, "--state", "lost"), tmp_path / "two.jsonl"
    cut_answer = stale(store, "--state", "lost", "--limit", "2", "--to", str(target))
    rows = whole["stale_records"][:2]
    assert cut_answer == {**whole, "stale_records": rows, "written_to": str(target)}
    assert [json.loads(line)["uniq_key"] for line in target.read_text().splitlines()] == ["U16", "U17"]


def test_segments_in_the_quarantine_are_looked_into(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 300, queues=1)
    assert rmqctl("truncate-dirty", "--offset", "16384", "--yes", store=root).code == 0
    answer = stale(root)
    assert answer["lost_messages"] > 100
    assert any(".rmqctl/quarantine" in row["file"] for row in answer["stale_records"])


def test_progress_rises_over_all_segments_to_the_end_of_the_log(tmp_path: Path) -> None:
    root, seen = make_store(tmp_path / "store", 150, queues=1), list[int]()
    with open_store(root) as store:
        end = store.max_log_offset
    at, _ = cut(root, 30)
    assert len(find_stale(StoreReader(str(root)), root, Filesystem(), seen.append)) > 0
    assert (len(list((root / "commitlog").iterdir())), seen) == (2, [at, end])
