"""All queues of a store: loading them, building them from runs, in place or beside the store."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.config import StoreConfig
from store.errors import StoreIOError, WrongFileSize
from store.files.filesystem import Filesystem
from store.files.overlay import Overlay
from store.formats.java import tags_code
from store.formats.message import RECORD_MIN_SIZE, TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from store.formats.queue_unit import UNIT_SIZE, QueueUnit
from store.formats.run import Run
from store.layout import StoreLayout
from store.structures.commitlog.scan import scan_segment
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore
from store.structures.consumequeue.other_queues import OtherQueues
from store.structures.consumequeue.out_of_order import OutOfOrder
from tests.support.small_log import (
    SMALL_CONFIG,
    START_MS,
    UNITS_PER_FILE,
    SmallLog,
    SmallSegment,
    log_offsets_of,
    open_queues,
    reopened_queues,
    tree,
    units_of,
)
from tests.support.twice import KINDS

LIGHT = StoreConfig(mapped_file_size_consume_queue=200, enable_lmq=True, enable_multi_dispatch=True)


def test_each_message_gets_a_unit_in_its_queue(tmp_path: Path) -> None:
    log = SmallLog()
    mixed = [log.put(topic, queue_id) for topic, queue_id in 7 * [("A", 0), ("A", 1), ("中文", 0)]]
    queues = open_queues(tmp_path)
    log.dispatch_to(queues)
    assert log_offsets_of(queues, "A", 0) == mixed[0::3]
    assert log_offsets_of(queues, "A", 1) == mixed[1::3]
    assert log_offsets_of(queues, "中文", 0) == mixed[2::3]
    assert queues.max_physic_offset == log.end
    assert queues.last_store_timestamp_ms == START_MS + 20_000


def test_prepared_and_rolled_back_messages_get_no_unit(tmp_path: Path) -> None:
    log = SmallLog()
    log.put(sys_flag=TRANSACTION_PREPARED, queue_offset=0)
    log.put(sys_flag=TRANSACTION_ROLLBACK, queue_offset=0)
    committed = log.put(sys_flag=TRANSACTION_COMMIT)
    queues = open_queues(tmp_path)
    log.dispatch_to(queues)
    assert log_offsets_of(queues) == [committed]


def test_the_tags_code_is_the_hash_of_the_tags_or_the_deliver_time(tmp_path: Path) -> None:
    log = SmallLog()
    log.put(tags="标签")
    log.put("SCHEDULE_TOPIC_XXXX", 2, tags="x", DELAY="3")
    log.put("SCHEDULE_TOPIC_XXXX", 2, DELAY="99")
    queues = open_queues(tmp_path)
    log.dispatch_to(queues)
    assert [unit.tags_code for unit in units_of(queues)] == [tags_code("标签")]
    delayed = [unit.tags_code for unit in units_of(queues, "SCHEDULE_TOPIC_XXXX", 2)]
    assert delayed == [START_MS + 1000 + 10_000, START_MS + 2000 + 7_200_000]


def test_dispatching_a_stretch_twice_changes_nothing(tmp_path: Path) -> None:
    log = SmallLog()
    log.put_many(13)
    queues = open_queues(tmp_path)
    log.dispatch_to(queues)
    before = tree(tmp_path)
    log.dispatch_to(queues, start=0)
    assert tree(tmp_path) == before


def test_dispatch_goes_on_where_a_recovered_queue_ends(tmp_path: Path) -> None:
    log = SmallLog()
    log.put_many(13)
    log.dispatch_to(open_queues(tmp_path))
    log.put_many(13)
    queues = reopened_queues(tmp_path)
    log.dispatch_to(queues, start=0)
    assert log_offsets_of(queues) == [unit.log_offset for unit in log.units]


def test_a_shifted_queue_is_reported(tmp_path: Path) -> None:
    log = SmallLog()
    log.put_many(2)
    log.put(queue_offset=9)
    queues = open_queues(tmp_path)
    log.dispatch_to(queues)
    assert [(one.topic, one.queue_offset, one.place) for one in queues.findings] == [("T", 9, 2)]


def test_messages_out_of_order_one_behind_the_other_are_one_finding_of_their_queue(tmp_path: Path) -> None:
    log = SmallLog()
    for number in range(20):
        for topic in "TU":
            log.put(topic, queue_offset=number if number < 2 else number + 7)
    queues = open_queues(tmp_path)
    log.dispatch_to(queues)
    assert queues.describe_findings() == [
        f"{topic}, queue 0: the messages with queue offsets 9 to 26 came where 2 is next, with the entry at 2 to 19 as "
        "in a broker: consumers' offsets point 7 messages too far"
        for topic in "TU"
    ]


@pytest.mark.parametrize("topic", ["a/b", "..", ".", "x\0y", "", "t" * 300])
def test_a_topic_that_no_folder_can_have_gets_no_queue(tmp_path: Path, topic: str) -> None:
    log = SmallLog()
    log.put(topic)
    good = log.put("T")
    queues = open_queues(tmp_path)
    log.dispatch_to(queues)
    assert log_offsets_of(queues) == [good]
    assert queues.unusable_topics == [topic]
    assert len(tree(tmp_path)) == 1


def test_a_light_queue_gets_units_only_when_both_settings_are_on(tmp_path: Path) -> None:
    log = SmallLog()
    places = [
        log.put(queue_id=3, INNER_MULTI_DISPATCH="%LMQ%x,other", INNER_MULTI_QUEUE_OFFSET=f"{number},{number}")
        for number in range(3)
    ]
    log.put(queue_id=3, INNER_MULTI_DISPATCH="%LMQ%x", INNER_MULTI_QUEUE_OFFSET="1,2")
    log.put("%RETRY%g", INNER_MULTI_DISPATCH="%LMQ%x", INNER_MULTI_QUEUE_OFFSET="3")
    queues, plain = open_queues(tmp_path / "on", LIGHT), open_queues(tmp_path / "off")
    log.dispatch_to(queues)
    log.dispatch_to(plain, start=0)
    assert log_offsets_of(queues, "%LMQ%x", 0) == places
    assert log_offsets_of(queues, "other", 3) == places
    assert plain.find("%LMQ%x", 0) is None


def test_a_light_queues_units_are_appended_in_one_go_and_repeats_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SmallLog()
    places = [
        log.put(INNER_MULTI_DISPATCH="%LMQ%x,%LMQ%x", INNER_MULTI_QUEUE_OFFSET=f"{number},{number}")
        if number % 9 == 4
        else log.put(INNER_MULTI_DISPATCH="%LMQ%x", INNER_MULTI_QUEUE_OFFSET=str(number))
        for number in range(25)
    ]
    queues = open_queues(tmp_path, LIGHT)
    singly: list[int] = []
    put = ConsumeQueue.put

    def count(queue: ConsumeQueue, log_offset: int, *values: int) -> OutOfOrder | None:
        singly.append(log_offset)
        return put(queue, log_offset, *values)

    monkeypatch.setattr(ConsumeQueue, "put", count)
    log.dispatch_to(queues)
    log.dispatch_to(queues, start=0)
    assert log_offsets_of(queues, "%LMQ%x", 0) == places
    assert set(singly) & set(places[5:13]) == set()


@pytest.mark.parametrize("offset", ["x", "9223372036854775808", "-9223372036854775809"])
def test_a_light_queue_offset_that_is_no_long_is_named_and_gets_no_unit(offset: str, tmp_path: Path) -> None:
    log = SmallLog()
    place = log.put(INNER_MULTI_DISPATCH="%LMQ%x", INNER_MULTI_QUEUE_OFFSET=offset)
    queues = open_queues(tmp_path, LIGHT)
    log.dispatch_to(queues)
    assert queues.light_faults == [place]
    assert queues.find("%LMQ%x", 0) is None


@pytest.mark.parametrize(("finds_light", "always", "count"), [(False, False, 0), (True, False, 1), (False, True, 1)])
def test_records_decide_on_light_queues_where_no_setting_does(
    finds_light: bool, always: bool, count: int, tmp_path: Path
) -> None:
    log = SmallLog()
    log.put(INNER_MULTI_DISPATCH="%LMQ%x", INNER_MULTI_QUEUE_OFFSET="4")
    run = next(scan_segment(SmallSegment(memoryview(log.data))))
    assert isinstance(run, Run)
    queues = open_queues(tmp_path)
    queues.finds_light = finds_light
    parts = queues.light_parts(run, np.array([0]), always=always)
    assert [(part.key, part.rows.tolist()) for part in parts] == [(("%LMQ%x", 0), [0])] * count


START = 5 * RECORD_MIN_SIZE + 3
"""A log's start, behind five records at most."""


@pytest.mark.parametrize(
    ("key", "queue_offset", "begins"),
    [
        (("T", 0), 0, False), (("T", 0), 1, True), (("T", 0), 5, True), (("T", 0), 6, False), (("T", -1), 1, False),
        (("a/b", 0), 1, False), (("Batch", 0), 1, False), (("Resting", 0), 1, False), (("Full", 0), 1, False),
        (("Empty", 0), 1, True),
    ],
)  # fmt: skip
def test_a_queue_without_files_begins_at_a_queue_offset_that_so_many_records_may_have_given(
    key: tuple[str, int], queue_offset: int, begins: bool, tmp_path: Path
) -> None:
    log, before = SmallLog(), open_queues(tmp_path)
    log.put("Resting")
    log.put_many(UNITS_PER_FILE + 1, "Full")
    log.dispatch_to(before)
    before.close()
    (tmp_path / "consumequeue/Empty/0").mkdir(parents=True)
    others = OtherQueues(frozenset({"Batch"}), "batchconsumequeue", 400, ConsumeQueue)
    queues = ConsumeQueueStore(StoreLayout(tmp_path), SMALL_CONFIG, Filesystem(), writable=True, others=others)
    queues.load()
    assert queues.continue_at(key, queue_offset, START) is begins
    if begins:
        assert units_of(queues, *key)[queue_offset - 1 :] == [QueueUnit(START - 1, 1, 0)]
        assert queues.find_or_create(*key).max_offset == queue_offset


def test_a_queue_that_failed_does_not_begin_anew(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    queues.find_or_create("T", 0).failure = StoreIOError("bad")
    assert not queues.continue_at(("T", 0), 1, START)


def test_extension_files_without_their_queue_are_written_over(tmp_path: Path) -> None:
    config = StoreConfig(mapped_file_size_consume_queue=200, enable_consume_queue_ext=True)
    log = SmallLog()
    places = [log.put(tags=f"tag{number}") for number in range(12)]
    log.dispatch_to(open_queues(tmp_path, config))
    shutil.rmtree(tmp_path / "consumequeue")
    queues = reopened_queues(tmp_path, config)
    log.dispatch_to(queues, start=0)
    assert log_offsets_of(queues) == places
    queue = queues.find("T", 0)
    assert queue is not None
    assert [queue.real_tags_code(unit.tags_code) for unit in units_of(queues)] == [
        tags_code(f"tag{number}") for number in range(12)
    ]


def test_a_folder_that_is_no_queue_is_passed_over_as_by_brokers(tmp_path: Path) -> None:
    (tmp_path / "consumequeue/T/zero").mkdir(parents=True)
    assert open_queues(tmp_path).names() == []


def test_a_queue_file_of_another_length_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "consumequeue/T/0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(bytes(199))
    with pytest.raises(WrongFileSize):
        open_queues(tmp_path)


def test_cutting_back_and_destroying_reach_every_queue(tmp_path: Path) -> None:
    log = SmallLog()
    for _ in range(25):
        log.put("A")
        log.put("B")
    queues = open_queues(tmp_path)
    log.dispatch_to(queues)
    queues.truncate_dirty(log.units[40].log_offset)
    assert [queue.max_offset for queue in queues] == [20, 20]
    queues.destroy()
    assert tree(tmp_path) == {}


def test_an_overlay_builds_beside_the_store(tmp_path: Path) -> None:
    log, real = SmallLog(), tmp_path / "store"
    log.put_many(13)
    log.dispatch_to(open_queues(real))
    before = tree(real)
    log.put_many(9)
    log.put("New")
    queues = reopened_queues(real, overlay=Overlay(tmp_path / "staged"))
    log.dispatch_to(queues, start=0)
    assert log_offsets_of(queues) == [unit.log_offset for unit in log.units[:22]]
    assert tree(real) == before
    staged = {str(place.relative_to(real)): path for place, path in queues.staged_files()}
    names = ["T/0/00000000000000000200", "T/0/00000000000000000400", "New/0/00000000000000000000"]
    assert sorted(staged) == sorted(f"consumequeue/{name}" for name in names)
    log.dispatch_to(open_queues(tmp_path / "direct"), start=0)
    direct = tree(tmp_path / "direct")
    assert {name: path.read_bytes() for name, path in staged.items()} == {name: direct[name] for name in staged}


def test_an_overlay_only_notes_what_a_truncation_deletes(tmp_path: Path) -> None:
    log, real = SmallLog(), tmp_path / "store"
    log.put_many(25)
    log.dispatch_to(open_queues(real))
    before = tree(real)
    queues = reopened_queues(real, overlay=Overlay(tmp_path / "staged"))
    queues.truncate_dirty(log.units[5].log_offset)
    folder = real / "consumequeue/T/0"
    assert queues.removed_paths() == [folder / f"{start:020d}" for start in (200, 400)]
    log.dispatch_to(queues, start=0)
    assert queues.removed_paths() == []  # The same files were built anew.
    assert tree(real) == before


def test_reading_a_folder_that_is_complete_makes_no_scratch(tmp_path: Path) -> None:
    log, real = SmallLog(), tmp_path / "store"
    log.put_many(13)
    log.dispatch_to(open_queues(real))
    queues = reopened_queues(real, overlay=Overlay(tmp_path / "scratch"))
    log.dispatch_to(queues, start=0)
    assert queues.staged_files() == []
    assert not (tmp_path / "scratch").exists()


class NaiveQueue:
    """putMessagePositionInfo once more, a list and a few ifs."""

    def __init__(self) -> None:
        self.units: list[QueueUnit | None] = []
        self.built = -1

    def put(self, unit: QueueUnit, queue_offset: int) -> None:
        if unit.log_offset + unit.size <= self.built:
            return
        if not self.units and queue_offset:
            first_in_file = queue_offset - queue_offset % UNITS_PER_FILE
            self.units = [None] * first_in_file + [QueueUnit(0, 0x7FFFFFFF, 0)] * (queue_offset - first_in_file)
        elif queue_offset and queue_offset < len(self.units):
            return
        self.units.append(unit)
        self.built = unit.log_offset + unit.size


records = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([0, 1, 2, None, None, None, None]), st.integers(0, 30)), max_size=60
)


@given(records=records, kind=st.sampled_from(sorted(KINDS)))
def test_every_order_of_queue_offsets_gives_what_one_by_one_gives(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[int, int | None, int]], kind: str
) -> None:
    log, naive = SmallLog(), [NaiveQueue(), NaiveQueue()]
    for queue_id, queue_offset, jump in records:
        chosen = queue_offset if queue_offset is None or jump < 25 else jump
        log.put("T", queue_id, queue_offset=chosen)
        used = log._next["T", queue_id] - 1 if chosen is None else chosen
        naive[queue_id].put(log.units[-1], used)
    queues = open_queues(tmp_path_factory.mktemp("queues"))
    with KINDS[kind]():
        log.dispatch_to(queues)
    for queue_id in (0, 1):
        expected = [unit for unit in naive[queue_id].units if unit is not None]
        assert units_of(queues, "T", queue_id) == expected


def test_the_small_geometry_is_what_the_tests_count_with() -> None:
    assert SMALL_CONFIG.mapped_file_size_consume_queue == UNITS_PER_FILE * UNIT_SIZE
