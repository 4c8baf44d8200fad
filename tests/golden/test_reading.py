"""Every request gets the broker's own answer: status, offsets, each field of each message, the raw bytes."""

from __future__ import annotations

import pytest

from store import open_store
from tests.conftest import CopyOf
from tests.support.answers import mismatches, queue_rows, set_queue_mtimes
from tests.support.golden import BARE, CLEAN, CRASHED, WITH_ANSWERS, golden
from tests.support.snapshots import snapshot
from tests.support.stores import recover


@pytest.mark.parametrize("kind", ["minmax", "get", "time", "query", "lookup", "queues"])
@pytest.mark.parametrize("name", WITH_ANSWERS)
def test_a_store_that_the_broker_had_loaded_gives_the_brokers_answers(name: str, kind: str) -> None:
    with open_store(golden(name).store_after_load) as store:
        assert mismatches(store, golden(name).asked(kind)) == []


@pytest.mark.parametrize("name", CLEAN)
def test_a_store_as_its_writer_left_it_gives_the_same_answers(name: str) -> None:
    with open_store(golden(name).store) as store:
        assert mismatches(store, golden(name).asked()) == []


@pytest.mark.parametrize("name", CRASHED)
def test_a_recovered_store_gives_the_same_answers(name: str, copy_of: CopyOf) -> None:
    archive, root = copy_of(name)
    # The broker's answers to a query list entries of truncated messages, which a recovery takes out of the index.
    recover(root, settings=archive.settings, as_broker=name == "corrupt-mid")
    kinds = ("minmax", "get", "query", "lookup", "queues", *(["time"] if name != "no-derived" else []))
    with open_store(root) as store:
        assert mismatches(store, [pair for kind in kinds for pair in archive.asked(kind)]) == []


@pytest.mark.parametrize("name", CRASHED)
def test_a_crashed_store_read_as_it_lies_there_gives_the_answers_of_a_recovered_one(name: str) -> None:
    archive = golden(name)
    with open_store(archive.store, settings=archive.settings) as store:
        for kind in ("minmax", "get", "lookup", "queues"):
            assert mismatches(store, archive.asked(kind)) == []


@pytest.mark.parametrize("name", CLEAN)
def test_searches_by_time_agree_once_the_queue_files_have_their_recorded_times(name: str, copy_of: CopyOf) -> None:
    archive, root = copy_of(name)
    set_queue_mtimes(root, archive.queue_mtimes_ms)
    with open_store(root) as store:
        assert mismatches(store, archive.asked_with_fixed_mtimes()) == []


@pytest.mark.parametrize("name", WITH_ANSWERS)
def test_the_queues_are_the_ones_the_broker_reported_after_loading(name: str) -> None:
    loaded = golden(name).loaded("load")
    with open_store(golden(name).store_after_load) as store:
        assert queue_rows(store) == loaded["queues"]
        assert (store.min_log_offset, store.max_log_offset) == (
            loaded["minPhyOffset"],
            loaded["maxPhyOffset"],
        )


def test_a_queue_whose_front_is_filler_begins_at_its_first_live_message() -> None:
    with open_store(golden("preblank").store) as store:
        states = {(queue.topic, queue.queue_id): queue for queue in store.queues()}
        first = {place: store.get(*place, queue.min_offset, 1).messages for place, queue in states.items()}
    assert states["TopicA", 0].min_offset == 13
    for place, messages in first.items():
        assert [message.queue_offset for message in messages] == [states[place].min_offset]


@pytest.mark.parametrize("name", [*WITH_ANSWERS, *BARE])
def test_reading_changes_no_name_no_byte_and_no_time(name: str) -> None:
    before = snapshot(golden(name).store)
    with open_store(golden(name).store) as store:
        for queue in store.queues():
            store.get(queue.topic, queue.queue_id, queue.min_offset)
            store.offset_by_time(queue.topic, queue.queue_id, 1_795_230_572_281)
        store.query("TopicA", "all")
    assert snapshot(golden(name).store) == before
