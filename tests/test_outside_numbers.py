"""Numbers in files and addresses that others wrote: another text than a broker's digits is none, and ends nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store import BadRequest
from store.engine.ha.link import Address
from store.files.store_reader import StoredFile, StoreReader
from store.query.tables.segment_times import first_store_time_us
from store.structures.commitlog.readable_log import read_store_timestamp
from store.structures.dledger.files import read_member_state
from store.structures.epochs.files import decode_epochs
from store.structures.messagedb.keys import decode_long
from store.structures.state.lines import state_lines
from store.verbs.salvage.walk import TornRecord, _Walk
from tests.support.logs import record

NO_NUMBERS = ["", "\u00b2", "\u0663", "1_000", "1 0", "0x1", "1.0", "-", "9" * 30, "9" * 5000]
"""A power, an Arabic digit, Python's own forms, and more digits than int() takes."""


def port_of(text: str, root: Path) -> object:
    try:
        return Address.parse(f"127.0.0.1:{text}").port
    except BadRequest:
        return None


def epoch_count_of(text: str, root: Path) -> object:
    try:
        return len(decode_epochs(f"{text}\n0\n1-0\n".encode()))
    except ValueError:
        return None


def broker_id_of(text: str, root: Path) -> object:
    (root / "brokerIdentity").write_bytes(f"cluster#broker#{text}".encode())
    [line] = state_lines(StoreReader(str(root)))
    return None if line.fault else line.value


def committed_of(text: str, root: Path) -> object:
    (root / "dledger-n0").mkdir()
    (root / "dledger-n0/checkpoint").write_bytes(f"committedIndex={text}\nendIndex=1\n".encode())
    return read_member_state(StoreReader(str(root)), "dledger-n0").committed_index


@pytest.mark.parametrize("text", NO_NUMBERS, ids=lambda text: ascii(text[:5]) + str(len(text)))
@pytest.mark.parametrize("read", [port_of, epoch_count_of, broker_id_of, committed_of])
def test_a_text_that_no_broker_writes_is_no_number(
    read: Callable[[str, Path], object], text: str, tmp_path: Path
) -> None:
    assert read(text, tmp_path) is None


@pytest.mark.parametrize("read", [port_of, epoch_count_of, committed_of])
def test_a_plain_number_is_read(read: Callable[[str, Path], object], tmp_path: Path) -> None:
    assert read("1", tmp_path) == 1


def test_a_negative_number_of_a_record_stays_negative(tmp_path: Path) -> None:
    data = record(queue_id=-3, queue_offset=-4, store_timestamp_ms=-5)
    reader = SimpleNamespace(read=lambda path, start, size: data[start : start + size])
    first = first_store_time_us(cast(Any, reader), StoredFile("0", 0, len(data), 0))
    assert (read_store_timestamp(memoryview(data)), first) == (-5, -5000)
    walk: Any = SimpleNamespace(_source=SimpleNamespace(name="name"))
    head = (-2).to_bytes(4, "big", signed=True) + data[4:40] + (-6).to_bytes(8, "big", signed=True) + data[48:]
    assert _Walk._torn(walk, 7, 8, head, "cut") == TornRecord("name", 7, 8, -2, -3, -4, -6, "cut")
    assert [decode_long((-1).to_bytes(8, "big", signed=True)), decode_long(bytes(7))] == [-1, None]
