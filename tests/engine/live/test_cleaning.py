"""The cleaning of a served store, by an injected clock and disk: what is deleted, when, and who reads meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from store import Message, ServedStore, open_store
from store.engine.live.running_flags import RunningFlag
from store.errors import StoreIOError
from tests.support.devices import FullDisk
from tests.support.stores import SMALL, Clock, text_message

HOUR_MS = 3_600_000
COUNT = 600
NEVER = {"deleteWhen": "00", "deleteCommitLogFilesInterval": 0, "deleteConsumeQueueFilesInterval": 0}


class Cleaned:
    """A served store of several segments, all written at noon, with its clock and disk."""

    def __init__(self, root: Path, line: str = "4.9", **settings: Any) -> None:
        # Noon, so that deleteWhen=00 is not the hour.
        self.clock, self.disk = Clock(1_700_049_600_000), FullDisk(0.5)
        self.store: ServedStore = open_store(
            root, read_only=False, services=["cleaning"], settings={**SMALL, **NEVER, **settings},
            clock=self.clock, fs=self.disk, compat=line,
        )  # fmt: skip
        for number in range(COUNT):
            assert self.store.put(text_message(number)).is_ok
        self.store.catch_up()
        for path in self.segments():
            os.utime(path, ns=(self.clock.now_ms * 1_000_000,) * 2)

    def __enter__(self) -> Cleaned:
        return self

    def __exit__(self, *exception: object) -> None:
        self.store.close()

    def segments(self) -> list[Path]:
        """Those in use: the next one is allocated ahead."""
        return [file.path for file in self.store.opened.log.segments.files]

    def names(self, kind: str) -> list[str]:
        return sorted(path.name for path in (self.store.layout.root / kind).iterdir())

    def run(self) -> int:
        count = self.store.cleaning.log.run()
        self.store.cleaning.offsets.run()
        self.store.cleaning.queues.run()
        return count


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("hours", "delete_when", "used", "deleted"),
    [
        (73, "12;13", 0.5, 5),
        (73, "00", 0.5, 0),
        (71, "11;12", 0.5, 0),
        (73, "00", 0.76, 5),
        (1, "00", 0.76, 0),
        (1, "00", 0.86, 5),
        (1, "00", 0.91, 5),
        (1, "00", -1.0, 0),
        (73, "00", -1.0, 5),
    ],
)
def test_a_pass_deletes_by_hour_and_space_and_age(
    hours: int, delete_when: str, used: float, deleted: int, tmp_path: Path
) -> None:
    with Cleaned(tmp_path / "store", deleteWhen=delete_when, deleteFileBatchMax=5) as served:
        served.clock.now_ms += hours * HOUR_MS
        served.disk.used = used
        assert served.run() == deleted


def test_the_last_segment_stays_however_old_it_is(tmp_path: Path) -> None:
    with Cleaned(tmp_path / "store", deleteFileBatchMax=1000) as served:
        before = [path.name for path in served.segments()]
        served.clock.now_ms += 1000 * HOUR_MS
        served.disk.used = 0.95
        assert served.run() == len(before) - 1
        assert [path.name for path in served.segments()] == before[-1:]
        assert served.store.min_log_offset == int(before[-1])


def test_queue_and_index_files_before_the_log_go_with_it(tmp_path: Path) -> None:
    with Cleaned(tmp_path / "store", deleteFileBatchMax=1000) as served:
        queue_files, index_files = served.names("consumequeue/T/0"), served.names("index")
        served.clock.now_ms += 73 * HOUR_MS
        served.disk.used = 0.76
        served.run()
        assert len(served.names("consumequeue/T/0")) < len(queue_files)
        assert len(served.names("index")) < len(index_files)
        first = next(iter(served.store.messages("T", 0)))
        assert first.queue_offset == served.store.min_offset("T", 0) > 0
        assert first.log_offset >= served.store.min_log_offset
        found = served.store.query("T", f"k{COUNT - 1}").messages
        assert [one.queue_offset for one in found] == [COUNT - 1]


def test_a_cleaned_store_opens_again_and_takes_messages(tmp_path: Path) -> None:
    with Cleaned(tmp_path / "store", deleteFileBatchMax=1000) as served:
        served.clock.now_ms += 73 * HOUR_MS
        served.disk.used = 0.8
        assert served.run() > 0
        low = served.store.min_offset("T", 0)
    with open_store(tmp_path / "store", read_only=False) as store:
        assert store.min_offset("T", 0) == low
        assert store.put(text_message(9)).queue_offset == COUNT


def test_readers_keep_the_messages_that_they_hold_while_segments_go(tmp_path: Path) -> None:
    with Cleaned(tmp_path / "store", deleteFileBatchMax=1000) as served:
        store = served.store
        held = store.get("T", 0, 0).messages
        reading = iter(store.messages("T", 0))
        bodies = [next(reading).body for _ in range(10)]
        view = store.opened.log.read(0, held[0].size)
        served.clock.now_ms += 73 * HOUR_MS
        served.disk.used = 0.8
        assert served.run() > 0
        assert held[0].body == bodies[0] == text_message(0).body
        assert bytes(view) == held[0].raw
        assert store.lookup(0) is None
        later = [one.queue_offset for one in reading]
        assert later[-1] == COUNT - 1
        assert store.get("T", 0, 0).status.name == "OFFSET_TOO_SMALL"


@pytest.mark.parametrize(
    ("used", "is_full_before", "is_full"),
    [(0.91, False, True), (0.90, False, False), (0.88, True, True), (0.85, True, False), (0.2, True, False)],
)
def test_the_disk_full_flag_is_set_above_ninety_and_cleared_below_eighty_five(
    used: float, is_full_before: bool, is_full: bool, tmp_path: Path
) -> None:
    with Cleaned(tmp_path / "store") as served:
        if is_full_before:
            served.store.flags.set(RunningFlag.DISK_FULL)
        served.disk.used = used
        served.run()
        assert (RunningFlag.DISK_FULL in served.store.flags) == is_full
        assert served.store.put(text_message(1)).is_ok != is_full
        served.disk.used = 0.1
        served.run()


@pytest.mark.parametrize(("line", "queues_flagged"), [("4.9", False), ("5.3", False)])
def test_with_a_full_log_disk_the_queues_partition_is_not_looked_at(
    line: str, queues_flagged: bool, tmp_path: Path
) -> None:
    with Cleaned(tmp_path / "store", line) as served:
        looked: list[str] = []

        def used(folder: Path) -> float:
            looked.append(folder.name)
            return 0.87 if folder.name == "commitlog" else 0.95

        served.disk.used = used
        served.run()
        assert (RunningFlag.DISK_FULL in served.store.flags) == queues_flagged
        served.disk.used = 0.1


def test_a_full_partition_of_the_queues_refuses_puts_too(tmp_path: Path) -> None:
    with Cleaned(tmp_path / "store") as served:
        served.disk.used = lambda folder: 0.95 if folder.name == "consumequeue" else 0.5
        served.run()
        assert RunningFlag.DISK_FULL in served.store.flags
        served.disk.used = 0.1
        served.run()


def test_a_segment_that_the_disk_keeps_is_tried_again_before_any_later_one(tmp_path: Path) -> None:
    with Cleaned(tmp_path / "store") as served:
        served.clock.now_ms += 73 * HOUR_MS
        served.disk.used, served.disk.refused = 0.8, {served.segments()[0].name}
        before = [path.name for path in served.segments()]
        for _ in range(2):
            with pytest.raises(StoreIOError):
                served.store.cleaning.log.run()
        assert {*served.names("commitlog")} >= {*before}
        served.disk.refused = set()
        assert served.run() > 0
        assert served.names("commitlog")[0] > before[0]


def test_a_segment_that_is_not_dispatched_stays(tmp_path: Path) -> None:
    with Cleaned(tmp_path / "store") as served:
        served.clock.now_ms += 73 * HOUR_MS
        served.disk.used = 0.8
        served.store.cleaning.log._dispatched_to = lambda: SMALL["mappedFileSizeCommitLog"]
        assert served.store.cleaning.log.run() == 1


def test_the_services_run_a_minute_after_the_start_and_then_every_ten_seconds(tmp_path: Path) -> None:
    with Cleaned(tmp_path / "store") as served:
        assert {(task.first_ms, task.period_ms) for task in served.store.cleaning.tasks()} == {(60_000, 10_000)}


def test_a_store_opened_for_one_command_deletes_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", read_only=False, settings=SMALL, services=["schedule"]) as store:
        store.put(Message.of("T", "x"))
        names = [one.name for table in store._tasks() for one in table]
        assert not [name for name in names if "cleaning" in name]
