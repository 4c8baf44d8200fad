"""Delayed messages that name no queue to deliver them to: found by check and foretold by simulate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from store import Message, check, open_store
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.delayoffsets.files import write_delay_offsets
from store.structures.delayoffsets.start import traps
from store.verbs.check.view import open_as_it_is
from tests.support.stores import SMALL, overwrite

RECORD = 142
"""Bytes of each record."""
LOG = "commitlog/" + "0" * 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with five delayed messages of level 1, and one of level 2."""
    with open_store(tmp_path / "store", read_only=False, settings=SMALL) as store:
        for number, level in enumerate([1, 1, 1, 1, 1, 2]):
            assert store.put(Message.of("T", str(number), delay_level=level)).log_offset == number * RECORD
    return tmp_path / "store"


def spoil(root: Path, number: int, name: bytes = b"REAL_QID", to: bytes = b"REAL_QIE") -> None:
    path = root / LOG
    position = path.read_bytes().index(name, number * RECORD)
    overwrite(path, position, to)


def save(root: Path, offset: int) -> None:
    (root / "config").mkdir(exist_ok=True)
    write_delay_offsets(StoreLayout(root), Filesystem(), {1: offset}, None)


def found(root: Path) -> list[tuple[object, ...]]:
    return [
        (one.file.removeprefix(f"{root}/"), one.kind, one.offset, one.topic, one.queue_id, one.count, one.detail)
        for one in check(root)
    ]


def finding(number: int, count: int, effect: str, level: int = 1) -> tuple[object, ...]:
    at = number if level == 1 else 0
    text = f"the message at queue offset {at} of level {level} has no usable REAL_TOPIC or REAL_QID: {effect}"
    return (LOG, "undeliverable-message", number * RECORD, "SCHEDULE_TOPIC_XXXX", level - 1, count, text)


def stops(behind: str) -> str:
    return f"a 4.9 broker stops the level there, and delivers none of the {behind} after it"


@pytest.mark.parametrize(
    ("saved", "wrong", "findings"),
    [
        (None, [], []),
        (None, [1], [finding(1, 1, stops("3 messages"))]),
        (None, [3], [finding(3, 1, stops("1 message"))]),
        (None, [4], [finding(4, 1, stops("0 messages"))]),
        (None, [1, 4], [finding(1, 2, stops("3 messages"))]),
        (None, [1, 5], [finding(1, 1, stops("3 messages")), finding(5, 1, stops("0 messages"), 2)]),
        # A broker is done with the messages before the saved offset.
        (1, [1, 4], [finding(1, 2, stops("3 messages"))]),
        (2, [1, 4], [finding(4, 1, stops("0 messages"))]),
        (5, [1, 4], []),
    ],
)
def test_a_level_has_a_finding_for_those_from_its_saved_offset_on(
    saved: int | None, wrong: list[int], findings: list[tuple[object, ...]], root: Path
) -> None:
    for number in wrong:
        spoil(root, number)
    if saved is not None:
        save(root, saved)
    assert found(root) == findings


@pytest.mark.parametrize(
    ("name", "to", "is_found"),
    [
        (b"REAL_TOPIC\1T", b"REAL_TOPIC\1S", False),
        (b"REAL_TOPIC", b"REEL_TOPIC", True),
        (b"REAL_QID\x010", b"REAL_QID\x017", False),
        (b"REAL_QID\x010", b"REAL_QID\1x", True),
    ],
)
def test_a_topic_and_a_number_of_a_queue_are_wanted(name: bytes, to: bytes, is_found: bool, root: Path) -> None:
    spoil(root, 1, name, to)
    assert found(root) == ([finding(1, 1, stops("3 messages"))] if is_found else [])


def test_a_broker_of_5_3_skips_them(root: Path) -> None:
    spoil(root, 1)
    spoil(root, 4)
    (root / "batchconsumequeue").mkdir()
    assert found(root) == [finding(1, 2, "a broker skips it")]


def test_a_start_meets_them(root: Path) -> None:
    def met() -> Iterator[tuple[str, str, tuple[object, ...]]]:
        with open_as_it_is(StoreLayout(root), {}) as opened:
            yield from ((one.code, one.detail, one.subject) for one in traps(opened, None))  # type: ignore[arg-type]

    assert list(met()) == []
    spoil(root, 5)
    assert list(met()) == [("undeliverable-message", finding(5, 1, stops("0 messages"), 2)[-1], (2,))]
