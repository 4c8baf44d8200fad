"""What dispatch writes for a run of records: a unit each, an entry per key, and the units in light queues."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from store.formats.java import key_hash
from store.formats.run import Run
from store.structures.consumequeue.expect import Units, expected_units, with_light_units
from store.structures.consumequeue.numbering import QueueTable
from store.structures.index.expect import Entries, expected_entries
from tests.support.small_log import START_MS, SmallLog

PREPARED, COMMITTED, ROLLED_BACK = 4, 8, 12


class Runs:
    """Keeps what `ask` says of each run."""

    def __init__(self, ask: Any) -> None:
        self.ask, self.answers = ask, list[Any]()

    def dispatch(self, run: Run) -> None:
        self.answers.append(self.ask(run))


def asked(log: SmallLog, ask: Any) -> list[Any]:
    runs = Runs(ask)
    log.dispatch_to(runs)
    return runs.answers


def rows(units: Units) -> list[tuple[Any, ...]]:
    """Queue, queue offset, log offset, size and tags code of each unit."""
    columns = [column.tolist() for column in units[1:]]
    return [(units.queues[queue], *more) for queue, *more in zip(*columns, strict=True)]


def test_each_record_has_a_unit_but_for_prepared_and_rolled_back_ones() -> None:
    log = SmallLog()
    log.put("A", 1, tags="x")
    log.put("A", 1, sys_flag=PREPARED)
    log.put("A", 1, sys_flag=ROLLED_BACK)
    log.put("B", 2, sys_flag=COMMITTED, queue_offset=7)
    stored = [(unit.log_offset, unit.size) for unit in log.units]
    (units,) = asked(log, lambda run: expected_units(run, ()))
    assert rows(units) == [(("A", 1), 0, *stored[0], ord("x")), (("B", 2), 7, *stored[3], 0)]
    assert rows(units.rows(np.array([1]))) == [(("B", 2), 7, *stored[3], 0)]


def test_a_table_keeps_the_numbers_of_queues_from_run_to_run() -> None:
    log, table = SmallLog(), QueueTable()
    log.put_many(5, "A")
    log.put_many(5, "B")
    first, second = asked(log, lambda run: expected_units(run, (), table))
    assert (set(first.queue.tolist()), set(second.queue.tolist())) == ({0}, {1})
    assert table.names == [("A", 0), ("B", 0)]


def test_the_units_in_light_queues_follow_that_of_their_record() -> None:
    log, table, numbers = SmallLog(), QueueTable(), dict[tuple[str, int], int]()
    names = "%LMQ%a,%LMQ%b"
    log.put("T", tags="x", INNER_MULTI_DISPATCH=names, INNER_MULTI_QUEUE_OFFSET="3,4")
    log.put("T")
    log.put("T", tags="y", INNER_MULTI_DISPATCH="%LMQ%a", INNER_MULTI_QUEUE_OFFSET="5")
    log.put_many(2)
    log.put("T", INNER_MULTI_DISPATCH="%LMQ%b", INNER_MULTI_QUEUE_OFFSET="6")
    first, second = asked(log, lambda run: with_light_units(run, expected_units(run, (), table), table, numbers)[0])
    light_a, light_b = ("%LMQ%a", 0), ("%LMQ%b", 0)
    stored = [(unit.log_offset, unit.size) for unit in log.units]
    assert rows(first) == [
        (("T", 0), 0, *stored[0], ord("x")),
        (light_a, 3, *stored[0], ord("x")),
        (light_b, 4, *stored[0], ord("x")),
        (("T", 0), 1, *stored[1], 0),
        (("T", 0), 2, *stored[2], ord("y")),
        (light_a, 5, *stored[2], ord("y")),
        (("T", 0), 3, *stored[3], 0),
        (("T", 0), 4, *stored[4], 0),
    ]
    assert rows(second) == [(("T", 0), 5, *stored[5], 0), (light_b, 6, *stored[5], 0)]
    assert numbers == {light_a: 1, light_b: 2}


def test_a_record_that_names_a_light_queue_twice_has_one_unit_there() -> None:
    log, table = SmallLog(), QueueTable()
    log.put("T", INNER_MULTI_DISPATCH="%LMQ%a,%LMQ%a", INNER_MULTI_QUEUE_OFFSET="3,4")
    ((units, _),) = asked(log, lambda run: with_light_units(run, expected_units(run, (), table), table, {}))
    assert [(queue, offset) for queue, offset, *_ in rows(units)] == [(("T", 0), 0), (("%LMQ%a", 0), 3)]


def test_the_unique_key_comes_before_the_others_and_a_rolled_back_record_has_none() -> None:
    log = SmallLog()
    first = log.put("T", keys="a b", uniq_key="u")
    log.put("T", keys="a", sys_flag=ROLLED_BACK)
    last = log.put("T", keys="c", sys_flag=PREPARED)
    (entries,) = asked(log, expected_entries)
    hashes = [key_hash(f"T#{key}") for key in ("u", "a", "b", "c")]
    assert list(map(list, entries)) == [hashes, [first] * 3 + [last], [START_MS] * 3 + [START_MS + 2000]]
    assert entries.up_to(first - 1).key_hash.tolist() == []
    assert entries.up_to(first).key_hash.tolist() == entries.up_to(last - 1).key_hash.tolist() == hashes[:3]
    assert entries.up_to(last).key_hash.tolist() == hashes


@pytest.mark.parametrize("keys_of_each", [1, 16_000])
def test_all_keys_of_a_run_are_hashed_however_many_they_are(keys_of_each: int) -> None:
    log, keys = SmallLog(), [chr(ord("a") + number % 26) for number in range(keys_of_each)]
    places = log.put_many(5, keys=" ".join(keys))
    (entries,) = asked(log, expected_entries)
    assert isinstance(entries, Entries)
    assert entries.key_hash.tolist() == [key_hash(f"T#{key}") for key in keys] * 5
    assert entries.log_offset.tolist() == np.repeat(places, keys_of_each).tolist()
