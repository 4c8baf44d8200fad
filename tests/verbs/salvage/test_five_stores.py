"""Salvages of damaged stores of real 5.x brokers: every sound message stays at its queue offset, and check is clean."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from store import check, open_store, salvage
from store.config import NAMED_QUEUES
from store.formats.message import StoredMessage
from store.formats.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET
from store.formats.topics import LMQ_PREFIX
from tests.support.five_stores import copy_of_five
from tests.support.quickly import one_of
from tests.support.random_damage import records

Place = tuple[str, int, int]
LIGHT = (INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET)


def messages_of(root: Path) -> Iterator[tuple[Place, int, StoredMessage]]:
    """Each message but placeholders: its queue and queue offset, the number of its entry, and the message."""
    with open_store(root) as store:
        for queue in store.queues():
            name = queue.topic, queue.queue_id
            for number, one in enumerate(store.messages(*name), store.min_offset(*name)):
                light = zip(*(one.properties.get(key, "").split(",") for key in LIGHT), strict=True)
                offset = int(dict(light).get(queue.topic, one.queue_offset))
                if "RMQCTL_LOST" not in one.properties:
                    yield (*name, offset), number, one


@pytest.mark.parametrize(
    ("name", "lose", "keep_offsets"),
    [
        *one_of(4, ["bcq", "bcq-aborted", "lmq", "rocksdb", "rocksdb-aborted"], [""], [False, True]),
        *one_of(2, ["rocksdb", "rocksdb-aborted"], ["consumequeue"], [False, True]),
        *one_of(2, ["bcq", "bcq-aborted"], ["config"], [False, True]),
        *one_of(2, ["bcq", "bcq-aborted"], ["config batchconsumequeue"], [False, True]),
        *one_of(2, ["bcq", "bcq-aborted"], ["config batchconsumequeue consumequeue index checkpoint"], [False, True]),
    ],
)
def test_sound_messages_stay_at_their_queue_offsets_past_lost_ones(
    name: str, lose: str, keep_offsets: bool, tmp_path: Path
) -> None:
    root, new = copy_of_five(name, tmp_path), tmp_path / "new"
    before = list(messages_of(root))
    places = records(root)
    lost = set()
    for path, at, size in places[len(places) // 3 :][:8]:
        lost.add(int(path.name) + at)
        with path.open("r+b") as file:
            file.seek(at)
            file.write(bytes(size))
    for part in lose.split():
        (shutil.rmtree if (root / part).is_dir() else os.unlink)(root / part)
    assert salvage(
        root, new, settings=NAMED_QUEUES if lose == "consumequeue" else {}, keep_offsets=keep_offsets
    ).new_store
    assert list(check(new)) == []
    found = list(messages_of(new))
    assert {place[2] - number for place, number, _ in found if place[0].startswith(LMQ_PREFIX)} <= {0}
    sound = {place: one.body for place, _, one in before if one.log_offset not in lost}
    assert sound.items() <= {place: one.body for place, _, one in found}.items()


def test_segments_alone_give_batch_queues_again(tmp_path: Path) -> None:
    root, loose, new = copy_of_five("bcq", tmp_path), tmp_path / "loose", tmp_path / "new"
    before = {place: one.body for place, _, one in messages_of(root)}
    (root / "commitlog").rename(loose)
    salvage(loose, new, settings={"mappedFileSizeCommitLog": 65536})
    assert list(check(new)) == []
    assert {place: one.body for place, _, one in messages_of(new)} == before
