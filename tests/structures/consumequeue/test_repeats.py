"""Dispatch over units that are there already: in runs it writes and finds what one record at a time does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.formats.queue_unit import UNIT_SIZE, ExtUnit
from store.formats.run import Int64Array, Run
from store.layout import StoreLayout
from store.structures.consumequeue.consume_queue import ConsumeQueue
from store.structures.consumequeue.consume_queue_store import ConsumeQueueStore
from tests.support.small_log import SMALL_CONFIG, SmallLog, log_offsets_of, open_queues, reopened_queues, tree

WITH_EXT = replace(SMALL_CONFIG, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=100)
TOPICS = ("A", "B")


class OneByOne(ConsumeQueueStore):
    """The broker's way: every record by itself, its extension unit first."""

    def _append_new(self, run: Run, order: Int64Array, starts: Int64Array, codes: Int64Array) -> None:
        for row in sorted(order[: starts[-1]].tolist()):
            key = self._numbered[int(np.searchsorted(starts, np.flatnonzero(order == row)[0], side="right")) - 1]
            assert key is not None
            queue = self.find_or_create(*key)
            code = int(codes[row])
            if queue.ext is not None:
                address = queue.ext.put(ExtUnit(code, int(run.columns.store_timestamp_ms[row]), b""))
                code = code if address is None else address
            columns = run.columns
            place = int(columns.log_offset[row]), int(columns.size[row])
            finding = queue.put(*place, code, int(columns.queue_offset[row]))
            self.findings += [finding] if finding is not None else []


def one_by_one(root: Path, config: StoreConfig) -> OneByOne:
    queues = OneByOne(StoreLayout(root), config, Filesystem(), writable=True)
    queues.load()
    queues.recover()
    return queues


# Topic, the record's queue offset (None: the queue's next), and what its log offset is wrong by.
Record = tuple[str, int | None, int]
records = st.lists(
    st.tuples(
        st.sampled_from(TOPICS),
        st.sampled_from([None, None, None, None, None, 0, 1, 2, 11, 30]),
        st.sampled_from([0, 0, 0, 0, 0, 0, -300, 300, 1 << 62, (1 << 63) - 1]),
    ),
    max_size=60,
)


def written(records: list[Record]) -> SmallLog:
    log = SmallLog()
    for topic, queue_offset, error in records:
        claimed = min(log.end + error, (1 << 63) - 1)
        log.put(topic, queue_offset=queue_offset, tags=f"tag{len(log.units)}", log_offset=max(0, claimed))
    return log


@given(records=records, built=st.integers(0, 60), again_from=st.integers(0, 60), ext=st.booleans())
def test_runs_over_what_is_there_give_what_one_by_one_gives(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[Record],
    built: int,
    again_from: int,
    ext: bool,
) -> None:
    # A queue with extension units and no unit has no folder to be found by.
    records = [(topic, offset, min(error, 1 << 62) if ext else error) for topic, offset, error in records]
    config, folder = WITH_EXT if ext else SMALL_CONFIG, tmp_path_factory.mktemp("queues")
    prefix, log = written(records[:built]), written(records)
    start = log.units[min(again_from, built, len(log.units) - 1)].log_offset if log.units else 0
    found = []
    for name, make in (("runs", reopened_queues), ("one by one", one_by_one)):
        prefix.dispatch_to(open_queues(folder / name, config), start=0)
        queues = make(folder / name, config)
        log.dispatch_to(queues, start=start)
        found.append(
            (tree(folder / name), sorted(queues.findings, key=repr), [queue.max_physic_offset for queue in queues])
        )
    assert found[0] == found[1]


def test_a_queue_that_lost_its_tail_gets_it_back_and_the_others_stay(tmp_path: Path) -> None:
    log = SmallLog()
    for _ in range(25):
        log.put("A")
        log.put("B")
    log.dispatch_to(open_queues(tmp_path))
    before = tree(tmp_path)
    path = tmp_path / "consumequeue/A/0" / f"{20 * UNIT_SIZE:020d}"
    path.write_bytes(bytes(10 * UNIT_SIZE))
    queues = reopened_queues(tmp_path)
    log.dispatch_to(queues, start=0)
    assert tree(tmp_path) == before
    assert queues.findings == []


def test_repeats_are_passed_over_in_one_kernel_call_per_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = SmallLog()
    log.put_many(40)
    log.dispatch_to(open_queues(tmp_path))
    queues = reopened_queues(tmp_path)

    def never(*arguments: object) -> None:
        raise AssertionError("a repeat was taken one by one")

    monkeypatch.setattr(ConsumeQueue, "put", never)
    monkeypatch.setattr(queues, "append", never)
    log.dispatch_to(queues, start=0)
    assert log_offsets_of(queues) == [unit.log_offset for unit in log.units]
