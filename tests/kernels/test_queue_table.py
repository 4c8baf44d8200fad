"""The table of queues: its hash depends on nothing but topic and queue id, and queues of one place are told apart."""

from __future__ import annotations

import numpy as np
import pytest

from store.kernels.queue_table import EMPTY, NO_QUEUE, QUEUE_ROWS, add_queue, find_queue, queue_hash

PLACES = 8


@pytest.mark.parametrize("size", range(1, 26))
def test_a_hash_is_that_of_the_topic_and_the_queue_id_alone(size: int) -> None:
    topic = bytes(range(65, 65 + size))
    alone = queue_hash(topic, 0, size, 3)
    assert 0 <= alone < 1 << 31
    for before, behind in ((b"\0", b"\xff"), (b"\xff\x01", b"\0" * 9)):
        assert queue_hash(before + topic + behind, len(before), size, 3) == alone
    others = [queue_hash(topic[:at] + b"z" + topic[at + 1 :], 0, size, 3) for at in range(size)]
    assert len({alone, queue_hash(topic, 0, size, 4), *others}) == size + 2


@pytest.mark.parametrize("place", [0, 5, PLACES - 1])
def test_queues_of_one_place_are_found_behind_one_another(place: int) -> None:
    topic = b"Topic"
    ids = [one for one in range(400) if queue_hash(topic, 0, 5, one) % PLACES == place][:4]
    names, queues = bytearray(64), np.zeros((QUEUE_ROWS, 8), np.int64)
    table, used = np.full(PLACES, EMPTY, np.int64), np.zeros(2, np.int64)
    for one in ids[:3]:
        add_queue(topic, 0, 5, one, names, queues, table, used)
    found = [find_queue(topic, 0, 5, one, names, queues, table) for one in ids]
    assert (found, used.tolist()) == ([0, 1, 2, NO_QUEUE], [3, 15])
    assert [at for at in range(PLACES) if table[at] != EMPTY] == sorted((place + at) % PLACES for at in range(3))
