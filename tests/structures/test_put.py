"""A put into a 5.x store writes what a 5.3 broker would."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from store import Message, check, open_store
from store.formats.checkpoint_page import decode_checkpoint
from store.formats.property_crc import stored_crc
from store.structures.commitlog.bulk import MessageColumns
from tests.cli.running import rmqctl
from tests.support.five_stores import copy_of_five
from tests.support.golden import copy_store, golden
from tests.support.refstore import needs_refstore, refstore
from tests.support.stores import SMALL

LONG_TOPIC = "L" * 200


def written(root: Path, *messages: Message, **settings: object) -> list[bytes]:
    """The records of these messages."""
    with open_store(root, read_only=False, compat="5.3", settings={**SMALL, **settings}) as store:
        return [store.lookup(store.put(message).log_offset).raw for message in messages]


def test_properties_end_with_a_separator_once(tmp_path: Path) -> None:
    records = written(
        tmp_path, Message("T", b"x", 0, b"KEYS\x01a"), Message("T", b"x", 0, b"KEYS\x01a\x02"), Message("T")
    )
    assert [record[-7:] for record in records[:2]] == [b"KEYS\x01a\x02"] * 2
    assert records[2][-2:] == bytes(2)


def test_a_topic_of_more_than_127_bytes_makes_a_record_of_version_2(tmp_path: Path) -> None:
    short, long = written(tmp_path, Message("T", b"x"), Message(LONG_TOPIC, b"x"))
    assert (short[4:8].hex(), long[4:8].hex()) == ("daa320a7", "daa320ab")


def test_many_messages_at_once_are_stored_as_single_ones_are(tmp_path: Path) -> None:
    messages = [
        Message(topic, b"x" * n, 0, b"KEYS\x01a" * (n % 2)) for n, topic in enumerate(["T", "U", LONG_TOPIC] * 3)
    ]
    for name, chosen in (("all", messages), ("short", [one for one in messages if len(one.topic) == 1])):
        single = written(tmp_path / name / "single", *chosen)
        with open_store(tmp_path / name / "bulk", read_only=False, compat="5.3", settings=SMALL) as store:
            result = store.put_many(MessageColumns.of(chosen))
            bulk = [store.lookup(int(at)).raw for at in result.log_offsets]
        assert [_without_times(one) for one in bulk] == [_without_times(one) for one in single]


def _without_times(record: bytes) -> bytes:
    """Without born and store time: each put has its own."""
    return record[:40] + record[48:56] + record[64:]


def test_the_abort_marker_holds_the_process_and_its_copy_what_it_held(tmp_path: Path) -> None:
    with open_store(tmp_path, read_only=False, compat="5.3", settings=SMALL):
        assert (tmp_path / "abort").read_text() == str(os.getpid())
        assert (tmp_path / "abort.bak").read_bytes() == b""
    assert not (tmp_path / "abort").exists()


def test_the_checkpoint_holds_the_record_that_the_opening_met_last(tmp_path: Path) -> None:
    root = copy_store(golden("normal5").store, tmp_path / "store")
    with open_store(root) as store:
        newest = max(one.log_offset for topic in store.topics() for one in store.messages(topic, 0))
    assert rmqctl("put", "TopicA", "x", store=root).code == 0
    assert decode_checkpoint((root / "checkpoint").read_bytes()).confirm_log_offset >= newest


@pytest.mark.parametrize("flag", [0, 4])
def test_a_record_ends_with_the_crc_of_its_bytes_where_that_is_asked_for(flag: int, tmp_path: Path) -> None:
    old = b"__CRC32#\x011234567890\x02KEYS\x01a"
    [record] = written(tmp_path, Message("T", b"x", 0, old, sys_flag=flag), enabledAppendPropCRC=True)
    from store.formats.java import crc32

    assert stored_crc(record) == crc32(record[:-20])
    assert record.count(b"__CRC32#") == 1
    assert list(check(tmp_path)) == []


@pytest.mark.leaves_damage
@pytest.mark.parametrize(
    ("properties", "kind"), [(b"a\x01b", "bad-properties-crc"), (b"REAL_TOPIC\x01b", "copied-crc")]
)
def test_damage_that_no_body_crc_sees_is_found_and_told_from_a_copy(
    properties: bytes, kind: str, tmp_path: Path
) -> None:
    written(tmp_path, Message("T", b"x", 0, properties, flag=7), enabledAppendPropCRC=True)
    with min((tmp_path / "commitlog").iterdir()).open("r+b") as file:
        file.seek(19)
        file.write(b"\x06")
    assert [finding.kind for finding in check(tmp_path)] == [kind]


def test_messages_stay_readable_beside_batch_queues(tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    assert rmqctl("put", "BatchA", "x", "--set", "enabledAppendPropCRC=true", store=root).code == 0
    assert list(check(root)) == []


@needs_refstore
@pytest.mark.parametrize("crc", [False, True])
def test_the_real_store_reads_what_was_put(crc: bool, tmp_path: Path) -> None:
    messages = [Message(topic, b"body", 0, b"KEYS\x01a") for topic in ("T", LONG_TOPIC)]
    sizes = {
        "mappedFileSizeCommitLog": 65536,
        "mappedFileSizeConsumeQueue": 400,
        "maxHashSlotNum": 500,
        "maxIndexNum": 1000,
    }
    written(tmp_path / "store", *messages, **sizes, enabledAppendPropCRC=crc)
    words = [
        "--store",
        tmp_path / "store",
        "--commitlog-size",
        65536,
        "--cq-size",
        400,
        "--slots",
        500,
        "--index-num",
        1000,
    ]
    for topic in ("T", LONG_TOPIC):
        with refstore("53", "get", *words, "--topic", topic, "--queue", 0, "--offset", 0, "--max", 2) as process:
            out, _ = process.communicate(timeout=120)
        assert '"status":"FOUND"' in out.replace(": ", ":"), out[-500:]
