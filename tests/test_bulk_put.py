"""Putting columns of messages stores what putting them one by one stores."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from store import Message, open_store
from store.commitlog.bulk import MessageColumns
from store.formats.host import Host
from store.formats.properties import encode_properties
from tests.support.golden import copy_store, golden

SETTINGS = {
    "mappedFileSizeCommitLog": 4096,
    "mappedFileSizeConsumeQueue": 400,
    "maxHashSlotNum": 64,
    "maxIndexNum": 256,
}


def a_clock() -> int:
    return 1_700_000_000_000


def messages(count: int = 60) -> list[Message]:
    """Messages of several topics, queues, sizes, transaction types and keys."""
    return [
        Message(
            f"Topic{number % 3}",
            bytes([number]) * (number * 7 % 150),
            queue_id=number % 4,
            properties=encode_properties({"KEYS": f"k{number} all", "TAGS": f"t{number % 5}"}),
            sys_flag=(0, 4, 8, 12)[number % 4],
            born_timestamp_ms=number,
        )
        for number in range(count)
    ]


def files_of(root: Path) -> dict[str, bytes]:
    """Contents by name; index files by rank, for their names are times."""
    kept = {}
    for rank, path in enumerate(sorted(path for path in root.rglob("*") if path.is_file())):
        name = str(path.relative_to(root))
        if name not in ("checkpoint", "lock"):
            kept[f"index/{rank}" if name.startswith("index") else name] = path.read_bytes()
    return kept


def stored(root: Path, put: str, many: list[Message]) -> dict[str, bytes]:
    with open_store(root, read_only=False, settings=SETTINGS, clock=a_clock) as store:
        if put == "many":
            store.put_many(MessageColumns.of(many))
        else:
            assert all(store.put(message).is_ok for message in many)
    return files_of(root)


def test_columns_are_stored_as_single_puts_are(tmp_path: Path) -> None:
    assert stored(tmp_path / "a", "many", messages()) == stored(tmp_path / "b", "one by one", messages())


def test_delayed_messages_among_them_are_rewritten_as_single_puts_do(tmp_path: Path) -> None:
    many = messages(20)
    many[7].properties, many[7].sys_flag = encode_properties({"DELAY": "3"}), 0
    assert stored(tmp_path / "a", "many", many) == stored(tmp_path / "b", "one by one", many)


def test_ipv6_hosts_are_stored_as_single_puts_store_them(tmp_path: Path) -> None:
    many = messages(20)
    for message in many:
        message.born_host = Host.parse("[2001:db8::1]:5000")
    assert stored(tmp_path / "a", "many", many) == stored(tmp_path / "b", "one by one", many)


def test_refused_rows_are_left_out_and_named(tmp_path: Path) -> None:
    many = messages(10)
    many[3].topic, many[6].body = "x" * 128, bytes(5000)
    with open_store(tmp_path / "s", read_only=False, settings=SETTINGS) as store:
        columns = MessageColumns.of(many)
        result = store.put_many(columns)
        assert sorted(result.refused) == [3, 6]
        assert (result.log_offsets < 0).nonzero()[0].tolist() == [3, 6]
        assert columns.message(7).body == many[7].body
        assert [store.lookup(int(at)).body for at in result.log_offsets if at >= 0] == [  # type: ignore[union-attr]
            message.body for place, message in enumerate(many) if place not in (3, 6)
        ]


def test_an_arrow_batch_is_stored_as_messages_are(tmp_path: Path) -> None:
    many = messages(30)
    batch = pa.record_batch(
        {
            "topic": [message.topic for message in many],
            "body": pa.array([message.body for message in many], pa.binary()),
            "queue_id": [message.queue_id for message in many],
            "sys_flag": [message.sys_flag for message in many],
            "born_timestamp_ms": [message.born_timestamp_ms for message in many],
            "properties": pa.array([message.properties for message in many], pa.binary()),
        }
    )
    with open_store(tmp_path / "a", read_only=False, settings=SETTINGS, clock=a_clock) as store:
        store.put_many(MessageColumns.from_arrow(batch))
    assert files_of(tmp_path / "a") == stored(tmp_path / "b", "one by one", many)


@pytest.fixture
def cut_store(tmp_path: Path) -> Path:
    """A store that was cut in the middle of a segment, with the old records still behind the cut."""
    root = copy_store(golden("corrupt-mid").store, tmp_path / "cut")
    with open_store(root, read_only=False, recover=True):
        pass
    return root


def test_behind_a_cut_no_old_record_comes_back_after_a_bulk_put(cut_store: Path) -> None:
    with open_store(cut_store, read_only=False) as store:
        result = store.put_many(MessageColumns.of(messages(5)))
        end = store.max_log_offset
        assert result.end == end
    with open_store(cut_store) as store:
        assert store.max_log_offset == end
