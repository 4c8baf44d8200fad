"""The loss report: what a cut takes out of sight, in which state it is, and who had not consumed it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from store import check, open_store
from store.change.change import Change
from store.formats.message import LOG_OFFSET_AT, store_timestamp_at
from store.formats.run import Stretch
from store.structures.commitlog.leftovers import is_zeroed_cut
from store.verbs.recover import unseen
from store.verbs.recover.lost import LossCounter, LossReport, LostCounts, LostForGroup, LostOfGroup, LostQueue
from tests.cli.running import rmqctl
from tests.support.golden import copy_store, golden
from tests.support.stores import LATER_MS, SMALL, Clock, make_store, recover, text_message, truncate

COUNT, QUEUES = 100, 3


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """100 messages in topic T, number n in queue n % 3; the checkpoint covers nothing."""
    root = make_store(tmp_path / "store", COUNT, queues=QUEUES)
    (root / "checkpoint").write_bytes(bytes(4096))
    (root / "abort").touch()
    return root


def places(root: Path) -> list[tuple[int, int]]:
    """Log offset and size of every message, by number."""
    found = []
    with open_store(root, as_is=True) as store:
        for number in range(COUNT):
            message = store.get("T", number % QUEUES, number // QUEUES).messages[0]
            found.append((message.log_offset, message.size))
    return found


def overwrite(root: Path, log_offset: int, data: bytes) -> None:
    start = log_offset - log_offset % 16384
    with (root / "commitlog" / f"{start:020d}").open("r+b") as file:
        file.seek(log_offset - start)
        file.write(data)


def counts(change: Change) -> dict[str, Any]:
    names = ("messages", "intact", "damaged", "unreadable")
    return {name: getattr(change.report, f"lost_{name}") for name in names}


def lost(messages: int, intact: int = 0, damaged: int = 0, unreadable: int = 0) -> dict[str, int]:
    return {"messages": messages, "intact": intact, "damaged": damaged, "unreadable": unreadable}


def test_a_sound_store_loses_nothing(crashed: Path) -> None:
    change, _ = recover(crashed)
    assert counts(change) == lost(0)
    assert change.lost == {}


def test_behind_a_bad_body_the_others_are_intact(crashed: Path) -> None:
    at, size = places(crashed)[40]
    overwrite(crashed, at + 95, b"\xff")
    change, _ = recover(crashed)
    assert counts(change) == lost(60, intact=59, damaged=1)
    assert change.report.lost_bytes == 60 * size
    assert [(row.topic, row.queue_id, row.message_count) for row in change.report.lost] == [
        ("T", 0, 20),
        ("T", 1, 20),
        ("T", 2, 20),
    ]
    assert change.report.lost_units_cut == 60


def test_a_record_that_cannot_be_read_is_known_by_its_unit(crashed: Path) -> None:
    at, size = places(crashed)[40]
    overwrite(crashed, at, b"\xff" * size)
    change, _ = recover(crashed)
    assert counts(change) == lost(60, intact=59, unreadable=1)
    assert {row.queue_id: row.unreadable_count for row in change.report.lost} == {0: 0, 1: 1, 2: 0}


def test_without_queues_damage_counts_as_one_message_of_no_topic(crashed: Path) -> None:
    at, size = places(crashed)[40]
    overwrite(crashed, at, b"\xff" * size)
    shutil.rmtree(crashed / "consumequeue")
    change, _ = recover(crashed, settings={"mappedFileSizeConsumeQueue": 400})
    assert counts(change) == lost(60, intact=59, unreadable=1)
    assert change.lost == {"": 1, "T": 59}


def test_a_torn_tail_counts_as_lost_with_and_without_its_unit(crashed: Path, tmp_path: Path) -> None:
    at, size = places(crashed)[-1]
    overwrite(crashed, at + size // 2, bytes(size - size // 2))
    bare = copy_store(crashed, tmp_path / "bare")
    shutil.rmtree(bare / "consumequeue")
    for root in (crashed, bare):
        change, _ = recover(root, settings={"mappedFileSizeConsumeQueue": 400})
        assert counts(change)["messages"] == 1


def test_records_behind_a_page_of_zeros_are_lost_though_no_unit_names_them(crashed: Path) -> None:
    at, size = places(crashed)[40]
    overwrite(crashed, at, bytes(size))
    shutil.rmtree(crashed / "consumequeue")
    change, _ = recover(crashed, settings={"mappedFileSizeConsumeQueue": 400})
    assert counts(change) == lost(59, intact=59)


@pytest.mark.parametrize(("later_ms", "count"), [(0, 59), (1, 59), (-1, 0)])
def test_behind_zeros_a_record_is_a_leftover_if_its_time_is_before_the_last_valid_one(
    later_ms: int, count: int, crashed: Path
) -> None:
    found = places(crashed)
    with open_store(crashed, as_is=True) as store:
        last_ms = store.get("T", 39 % QUEUES, 39 // QUEUES).messages[0].store_timestamp_ms
    overwrite(crashed, found[40][0], bytes(found[40][1]))
    for at, _ in found[41:]:
        overwrite(crashed, at + store_timestamp_at(0), (last_ms + later_ms).to_bytes(8, "big"))
    shutil.rmtree(crashed / "consumequeue")
    change, _ = recover(crashed, settings={"mappedFileSizeConsumeQueue": 400})
    # In the segments behind the one that ends at zeros nothing is a leftover.
    in_this_segment = sum(at // 16384 == found[40][0] // 16384 for at, _ in found[41:])
    assert counts(change) == lost(count or 59 - in_this_segment, intact=count or 59 - in_this_segment)


@dataclass
class Bytes:
    """A segment that begins at log offset 4096."""

    buffer: memoryview
    file_start: int = 4096

    @property
    def size(self) -> int:
        return len(self.buffer)

    def readable_end(self, start: int, stop: int) -> int:
        return stop


SECTOR_END = 512 - 8
ZEROED_CUTS = {
    "at its place": (100, bytes(8), b"\0", 0, True),
    "at its place, to the end of a sector": (SECTOR_END, bytes(8), b"\1", 0, True),
    "elsewhere, inside a sector": (100, bytes(8), b"\1", 1, True),
    "elsewhere, to the end of a sector": (SECTOR_END, bytes(8), b"\1", 1, False),
    "elsewhere, more zeros": (100, bytes(8), b"\0", 1, False),
    "seven zeros": (100, bytes(7) + b"\1", b"\1", 0, False),
    "too near the end": (1024 - 40, bytes(8), b"\1", 0, False),
}


@pytest.mark.parametrize("name", ZEROED_CUTS)
def test_eight_zeros_are_an_earlier_cut_if_the_rest_of_a_record_follows(name: str) -> None:
    position, head, next_byte, moved, is_cut = ZEROED_CUTS[name]
    place = (4096 + position + moved).to_bytes(8, "big")
    record = (head + next_byte).ljust(LOG_OFFSET_AT, b"\0") + place
    data = (bytes(position) + record).ljust(1024, b"\0")[:1024]
    assert is_zeroed_cut(Bytes(memoryview(data)), position) == is_cut  # type: ignore[arg-type]


def test_zeros_alone_are_no_earlier_cut() -> None:
    assert not is_zeroed_cut(Bytes(memoryview(bytes(1024)), -100), 100)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0x7FFFFFFF, 16385, 90])
def test_a_unit_of_a_size_that_no_record_has_counts_no_bytes(size: int, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", COUNT, queues=QUEUES)
    last = max((root / "consumequeue/T/0").iterdir())
    stray = (1 << 40).to_bytes(8, "big") + size.to_bytes(4, "big")
    with last.open("r+b") as file:
        file.seek(len(last.read_bytes().rstrip(bytes(1))) // 20 * 20)
        file.write(stray)
    change, _ = recover(root, as_broker=True)
    assert counts(change) == lost(1, unreadable=1)
    assert change.report.lost_bytes == 0


def test_what_an_earlier_cut_left_behind_is_not_lost_again(crashed: Path) -> None:
    at, _ = places(crashed)[40]
    overwrite(crashed, at + 95, b"\xff")
    recover(crashed)
    (crashed / "abort").touch()
    again, _ = recover(crashed)
    assert counts(again) == lost(0)
    with open_store(crashed, read_only=False, clock=Clock(1_800_000_000_000)) as store:
        assert store.put(text_message(7, body_size=50)).is_ok
    (crashed / "abort").touch()
    after_a_put, _ = recover(crashed)
    assert counts(after_a_put) == lost(0)


def test_the_groups_that_had_not_consumed_are_named(crashed: Path) -> None:
    at, _ = places(crashed)[40]
    overwrite(crashed, at + 95, b"\xff")
    (crashed / "config").mkdir()
    table = {"T@fast": {"0": 34, "1": 33, "2": 33}, "T@slow": {"0": 20, "1": 0, "2": 33}, "Other@fast": {"0": 0}}
    (crashed / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": table}))
    change, _ = recover(crashed)
    # Of queue 0 the offsets 14 … 33 are lost, of queue 1 those from 13 on.
    assert change.report.unconsumed == [LostOfGroup("slow", "T", 14 + 20)]


def test_a_cut_by_hand_counts_up_to_the_end_of_the_log(crashed: Path) -> None:
    at, _ = places(crashed)[70]
    change, _ = truncate(crashed, at)
    assert counts(change) == lost(30, intact=30)
    (crashed / "abort").touch()
    assert counts(recover(crashed)[0]) == lost(0)


@pytest.mark.parametrize(("keep", "none_lost"), [(False, False), (True, True)])
def test_keys_that_are_not_indexed_again_are_counted(keep: bool, none_lost: bool, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", COUNT, queues=QUEUES, maxIndexNum=1000)
    (root / "abort").touch()
    change, _ = recover(root, keep_index=keep)
    assert change.report.start_segment > 0
    assert (change.report.lost_index_keys == 0) == none_lost


@pytest.mark.leaves_damage
def test_a_cut_by_hand_keeps_the_keys_of_messages_behind_damage(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 60)
    with open_store(root) as store:
        damaged, cut = (store.get("T", 0, offset).messages[0].log_offset for offset in (15, 19))
    overwrite(root, damaged, b"\x7f\0\0\0")
    truncate(root, cut, settings=SMALL)
    kinds = [finding.kind for finding in check(root)]
    assert "missing-index-entry" not in kinds
    assert "bad-length" in kinds


def test_delayed_messages_keep_their_deliver_time_unless_the_broker_is_followed(tmp_path: Path) -> None:
    times = {}
    for as_broker in (False, True):
        root = copy_store(golden("no-derived").store, tmp_path / str(as_broker))
        settings = golden("no-derived").settings
        change, _ = recover(root, settings=settings, as_broker=as_broker)
        assert bool(change.report.lost_delayed) == as_broker
        with open_store(root, settings=settings) as store:
            queue = store.opened.queues.find("SCHEDULE_TOPIC_XXXX", 2)
            unit = queue.unit(0) if queue is not None else None
            assert unit is not None
            times[as_broker] = unit.tags_code - store.opened.log.store_timestamp(unit.log_offset, unit.size)
    assert times[False] == 10_000
    assert times[True] != 10_000


def test_the_exit_code_says_whether_what_is_lost_is_kept(crashed: Path, tmp_path: Path) -> None:
    at, _ = places(crashed)[40]
    overwrite(crashed, at + 95, b"\xff")
    other = copy_store(crashed, tmp_path / "other")
    assert rmqctl("recover", "--yes", store=crashed).code == 0
    assert rmqctl("recover", "--yes", "--no-quarantine", store=other).code == 1


def test_units_behind_a_cut_do_not_come_back_when_the_log_grows_past_them(crashed: Path) -> None:
    at, _ = places(crashed)[40]
    (crashed / "abort").unlink()
    truncate(crashed, at)
    with open_store(crashed, read_only=False, clock=Clock(LATER_MS)) as store:
        for number in range(200):
            assert store.put(text_message(number, "Other")).is_ok
    with open_store(crashed) as store:
        readable = [queue.max_offset for queue in store.queues() if queue.topic == "T"]
        assert readable == [14, 13, 13]
        assert sum(len(store.get("T", queue, 0, 100).messages) for queue in range(QUEUES)) == 40


def test_a_message_out_of_its_queues_order_is_said_in_the_plan_and_by_the_exit_code(crashed: Path) -> None:
    at, _ = places(crashed)[90]
    overwrite(crashed, at + 20, (77).to_bytes(8, "big"))
    shutil.rmtree(crashed / "consumequeue")
    run = rmqctl("--set", "mappedFileSizeConsumeQueue=400", "recover", "--dry-run", store=crashed)
    assert "T, queue 0: the message with queue offset 77 came where 30 is next" in run.err
    assert run.code == 1


def test_a_recovery_names_where_it_differs_from_a_broker(crashed: Path) -> None:
    at, _ = places(crashed)[40]
    overwrite(crashed, at + 95, b"\xff")
    change, _ = recover(crashed)
    named = [row.difference for row in change.report.differs_from_broker]
    assert named == ["zeroed-cut", "closed", "zeroed-units"]


def test_no_group_misses_a_message_of_a_transaction_that_is_open_or_rolled_back(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root, settings=SMALL, read_only=False) as store:
        first = store.put(text_message(0, queue_id=0)).size
        for number, sys_flag in enumerate((0, 4, 8, 12), start=1):
            store.put(replace(text_message(number, queue_id=0), sys_flag=sys_flag))
    (root / "config").mkdir()
    (root / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": {"T@g": {"0": 0}}}))
    change, _ = truncate(root, first)
    assert (change.report.lost_messages, change.report.unconsumed) == (4, [LostOfGroup("g", "T", 2)])


REPORT = LossReport(
    [LostQueue("U", 1, 1, 20, 300, 4000, 50_000), LostQueue("T", 0, 2, 10, 100, 1000, 10_000), LostQueue("T", 3, 5)],
    [LostForGroup("h", "T", 0, 2), LostForGroup("g", "U", 1, 1), LostForGroup("g", "T", 0, 3),
     LostForGroup("g", "T", 3, 4)],
    units_cut=7, index_keys=8, delayed=9,
)  # fmt: skip


def test_a_report_has_the_sums_of_its_queues_and_groups_by_name() -> None:
    assert REPORT.counts() == LostCounts(8, 30, 400, 5000, 60_000, 7, 8, 9)
    assert list(REPORT.by_topic().items()) == [("T", 7), ("U", 1)]
    assert list(REPORT.by_group().items()) == [("g", 8), ("h", 2)]
    assert REPORT.group_rows() == [LostOfGroup("g", "T", 7), LostOfGroup("g", "U", 1), LostOfGroup("h", "T", 2)]
    assert REPORT.queue_rows() == [
        replace(REPORT.queues[2], unconsumed_by_group={"g": 4}),
        replace(REPORT.queues[1], unconsumed_by_group={"h": 2, "g": 3}),
        replace(REPORT.queues[0], unconsumed_by_group={"g": 1}),
    ]


@pytest.mark.parametrize(
    ("report", "is_empty"),
    [
        (LossReport(), True),
        (LossReport(units_cut=1), True),
        (LossReport(index_keys=1), False),
        (LossReport(delayed=1), False),
        (LossReport([LostQueue("T", 0)]), True),
        (LossReport([LostQueue("T", 0, 1)]), False),
    ],
)
def test_a_message_a_key_or_a_deliver_time_is_a_loss(report: LossReport, is_empty: bool) -> None:
    assert report.is_empty is is_empty


def test_without_entries_nothing_is_left_over_and_nothing_is_marked() -> None:
    counter: Any = SimpleNamespace(_leftovers=[])
    assert len(LossCounter._leftover_rows(counter, np.empty(0, np.int64))) == 0
    queue: Any = SimpleNamespace(files=SimpleNamespace(files=[]), min_offset=0)
    assert len(unseen._entries(queue, Stretch(0, 100))) == 0
