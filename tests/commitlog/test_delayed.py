"""A delayed message is stored in the schedule topic, in the queue of its level, its real place in properties."""

from __future__ import annotations

import pytest

from store.commitlog.put_rules import PutRules
from store.config import StoreConfig
from store.formats.message import Message
from store.formats.properties import decode_properties
from store.formats.topics import SCHEDULE_TOPIC

SEGMENT_SIZE = 1 << 20

# What the producer asked for, of 18 levels: the stored level, and the queue.
LEVELS = [("1", "1", 0), ("18", "18", 17), ("19", "18", 17), ("2147483647", "18", 17)]


@pytest.mark.parametrize(("asked", "level", "queue_id"), LEVELS)
def test_a_level_beyond_the_last_one_is_the_last(asked: str, level: str, queue_id: int) -> None:
    message = Message("T", b"x", 3, f"DELAY\x01{asked}\x02KEYS\x01k\x02".encode())
    stored = PutRules(StoreConfig(), SEGMENT_SIZE).delayed(message)
    assert (stored.topic, stored.queue_id) == (SCHEDULE_TOPIC, queue_id)
    assert decode_properties(stored.properties) == {
        "DELAY": level,
        "KEYS": "k",
        "REAL_TOPIC": "T",
        "REAL_QID": "3",
    }


@pytest.mark.parametrize("asked", ["0", "-1", "", "soon"])
def test_what_is_no_level_delays_nothing(asked: str) -> None:
    message = Message("T", b"x", 3, f"DELAY\x01{asked}\x02".encode())
    assert PutRules(StoreConfig(), SEGMENT_SIZE).delayed(message) is message
