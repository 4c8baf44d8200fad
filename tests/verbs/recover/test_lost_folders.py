"""A crashed store that has lost folders of queues is recovered to what the whole one is recovered to."""

from __future__ import annotations

import shutil
from itertools import combinations
from pathlib import Path

import pytest

from store import check
from tests.support.golden import copy_store, golden
from tests.support.quickly import one_of
from tests.support.snapshots import contents
from tests.support.stores import recover

TOPICS = ("SCHEDULE_TOPIC_XXXX", "TopicA", "TopicB", "topic_C-3")


@pytest.mark.parametrize("lost", one_of(7, [(topic,) for topic in TOPICS] + [*combinations(TOPICS, 2)]), ids=" ".join)
def test_the_queues_of_lost_topics_come_back_from_their_first_unit(lost: tuple[str, ...], tmp_path: Path) -> None:
    whole, root = (copy_store(golden("aborted").store, tmp_path / name) for name in ("whole", "store"))
    for topic in lost:
        shutil.rmtree(root / "consumequeue" / topic)
    recover(whole)
    recover(root)
    assert list(check(root)) == []
    assert contents(root / "consumequeue") == contents(whole / "consumequeue")
