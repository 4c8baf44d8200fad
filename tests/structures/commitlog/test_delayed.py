"""A delayed message is stored in the schedule topic, in the queue of its level, its real place in properties."""

from __future__ import annotations

import pytest

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.config import StoreConfig
from store.formats.message import Message
from store.formats.properties import decode_properties
from store.formats.topics import SCHEDULE_TOPIC
from store.structures.commitlog.put_rules import PutRules

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


# A map of 4.9.8 begins with 16 places, one of 5.3.3 with 128 (MessageDecoder.string2messageProperties).
OF_4_9 = """e=2;name6=v;name5=v;REAL_TOPIC=T;name4=v;name3=v;name9=v;name8=v;KEYS=k1 k2;name7=v;name2=v
;CLUSTER=RefCluster;DELAY=1;name1=v;WAIT=true;TAGS=TagA;name0=v;REAL_QID=2"""
OF_5_3 = """CLUSTER=RefCluster;name6=v;name5=v;name4=v;name3=v;name9=v;name8=v;name7=v;name2=v
;DELAY=1;name1=v;TAGS=TagA;name0=v;KEYS=k1 k2;WAIT=true;e=2;REAL_TOPIC=T;REAL_QID=2;"""


@pytest.mark.parametrize(("line", "written"), [(LINE_4_9, OF_4_9), (LINE_5_3, OF_5_3)])
def test_the_properties_are_written_anew_as_the_brokers_map_has_them(line: BrokerLine, written: str) -> None:
    names = "".join(f"name{number}\x01v\x02" for number in range(10))
    given = f"DELAY\x011\x02TAGS\x01TagA\x02KEYS\x01k1 k2\x02{names}e\x011\x02none\x01\x02e\x012\x02"
    message = Message("T", b"x", 2, f"{given}CLUSTER\x01RefCluster\x02WAIT\x01true".encode())
    stored = PutRules(StoreConfig(), SEGMENT_SIZE, line).delayed(message)
    assert stored.properties.decode().replace("\x01", "=").replace("\x02", ";") == written.replace("\n", "")


@pytest.mark.parametrize("asked", ["0", "-1", "", "soon"])
def test_what_is_no_level_delays_nothing(asked: str) -> None:
    message = Message("T", b"x", 3, f"DELAY\x01{asked}\x02".encode())
    assert PutRules(StoreConfig(), SEGMENT_SIZE).delayed(message) is message
