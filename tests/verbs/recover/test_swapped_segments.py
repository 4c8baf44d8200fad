"""Segments with each other's names: a lost message counts once, wherever its record lies."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

from store import plan_recovery, plan_truncation, salvage, simulate
from store.verbs.recover.outcome import SimulatedStart
from tests.cli.running import rmqctl
from tests.support.golden import copy_store, golden
from tests.support.refstore import SIZES, needs_refstore, refstore
from tests.support.stores import SMALL, make_store

SEGMENTS, MESSAGES = 4, 300


def swapped(source: Path, first: int, second: int, tmp_path: Path) -> Path:
    """Return a copy of a store with the names of two segments exchanged."""
    root = copy_store(source, tmp_path / "store")
    names = sorted((root / "commitlog").iterdir())
    aside = root / "commitlog" / "aside"
    names[first].rename(aside)
    names[second].rename(names[first])
    aside.rename(names[second])
    return root


def counts(start: SimulatedStart) -> tuple[int, int, int, int, int]:
    lost = start.lost.counts()
    return lost.lost_messages, lost.lost_intact, lost.lost_damaged, lost.lost_unreadable, sum(start.unseen.values())


def test_a_lost_message_of_a_renamed_segment_counts_once_and_one_that_is_kept_not_at_all(tmp_path: Path) -> None:
    root = swapped(golden("normal").store, 1, 2, tmp_path)
    start = simulate(root, compat="4.9")
    assert (start.log_end, counts(start)) == (66587, (247, 247, 0, 0, 4))
    for plan in (plan_recovery, plan_truncation):
        with plan(root) as change:
            report = change.report
            assert (report.lost_messages, report.lost_intact, report.lost_unreadable) == (247, 247, 0)
    assert rmqctl("doctor", store=root).out.splitlines()[0] == (
        "247 messages would be lost on restart, 247 can be salvaged; 4 messages of the log will be in no queue; "
        "18 findings"
    )
    # The 249 of the first segment, those past the end, and those in no queue.
    assert salvage(root, tmp_path / "new").saved == 249 + 247 + 4


@needs_refstore
def test_the_real_store_shows_as_many_messages_less(tmp_path: Path) -> None:
    root = swapped(golden("normal").store, 1, 2, tmp_path)
    start = simulate(root, compat="4.9")
    before = rmqctl("--format", "json", "info", store=root).json["message_count"]
    with refstore("49", "load", "--store", root, *SIZES, "--then-close", "none") as process:
        said = json.loads(process.communicate(timeout=60)[0].splitlines()[-1])
    assert said["maxPhyOffset"] == start.log_end
    entries = sum(queue["max"] - queue["min"] for queue in said["queues"])
    assert before - entries == start.lost.units_cut == 225
    # One entry below the end stays, and points to another message now; half messages have no entry.
    half = sum(row.message_count for row in start.lost.queues) - (before - entries) - 1 + 4
    assert half == 25


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_store(tmp_path_factory.mktemp("four") / "store", MESSAGES)
    names = sorted((root / "commitlog").iterdir())
    assert [int(one.name) for one in names] == [at * SMALL["mappedFileSizeCommitLog"] for at in range(SEGMENTS)]
    return root


@pytest.mark.parametrize("ends", ["closed", "killed"])
@pytest.mark.parametrize(("first", "second"), list(combinations(range(SEGMENTS), 2)))
def test_no_message_counts_twice_after_any_two_are_swapped(
    first: int, second: int, ends: str, four: Path, tmp_path: Path
) -> None:
    root = swapped(four, first, second, tmp_path)
    if ends == "killed":
        (root / "abort").touch()
    for compat in ("4.9", "5.3"):
        lost, intact, *others, unseen = counts(simulate(root, compat=compat))
        assert (lost, others) == (intact, [0, 0])
        assert lost + unseen <= MESSAGES
