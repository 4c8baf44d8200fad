"""Ten tasks of an operator, each done in at most three commands, with the first line of each answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.support.manual_stores import copy_of, of_old_segments, with_services

Task = tuple[Callable[[Path], Path], list[tuple[str, int, str]]]
BEHIND = "3 of 3 groups behind; 2 offsets are outside of the queue"
EXPIRED = "; 496 messages no longer shown, none of them known to be unconsumed"
RECOVERED = "changed the store in 5 steps; no message is lost"
TASKS: dict[str, Task] = {
    "find an order": (copy_of("normal"), [("find order3", 0, "1 message found as key")]),
    "say what a restart loses": (
        copy_of("corrupt-mid"),
        [("doctor", 1, "250 messages would be lost on restart, 249 can be salvaged; 3 findings")],
    ),
    "get the lost ones back": (
        copy_of("corrupt-mid"),
        [
            ("salvage --to NEW", 1, "499 certain records, 1 doubtful, 0 torn; nothing is missing between them"),
            ("--store NEW info", 0, "a 4.9 store, 450 messages in the queues of 4 topics; nothing is missing"),
        ],
    ),
    "who fills the disk": (
        copy_of("normal"),
        [("usage", 0, "500 messages, 128.6 KiB; the most in topic_C-3, 32.93 %")],
    ),
    "lag of a group": (with_services, [("lag", 1, BEHIND)]),
    "reset it": (
        with_services,
        [
            ("lag --queues", 1, BEHIND),
            (
                "config reset-offsets CG_order --topic PlainA --to last --yes",
                0,
                "changed the store in 1 step; no message is lost",
            ),
            ("lag --group CG_order --topic PlainA", 0, "0 of 1 group behind; all offsets are in their queues"),
        ],
    ),
    "free the disk": (
        of_old_segments,
        [
            (
                "clean-expired --free 100K --dry-run",
                0,
                f"would change the store in 17 steps (remove 17 files, 133.9 KiB){EXPIRED}",
            ),
            ("clean-expired --free 100K --yes", 0, f"changed the store in 17 steps{EXPIRED}"),
            ("quarantine purge --yes", 0, "17 files of 1 change, 133.9 KiB deleted"),
        ],
    ),
    "make a store start": (
        copy_of("aborted"),
        [
            ("recover --yes", 0, RECOVERED),
            ("simulate", 0, "a 4.9 broker starts and loses nothing; the log ends at 132123"),
        ],
    ),
    "undo": (
        copy_of("aborted"),
        [
            ("recover --yes", 0, RECOVERED),
            ("quarantine list", 0, "1 change in the quarantine"),
            ("undo ID", 0, "5 files as before ID"),
        ],
    ),
    "watch it in Prometheus": (
        copy_of("normal"),
        [("doctor --format prometheus", 0, "# TYPE rmqctl_doctor_worst_rank gauge")],
    ),
}


@pytest.mark.turns(2)
@pytest.mark.leaves_damage
@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_done_in_three_commands_at_most(task: str, tmp_path: Path) -> None:
    build, commands = TASKS[task]
    root = build(tmp_path / "built")
    known = {"NEW": str(tmp_path / "new")}
    assert len(commands) <= 3
    for line, code, first in commands:
        words = [known.get(word, word) for word in line.split()]
        run = rmqctl(*words, store=None if "--store" in words else root)
        assert run.code == code, (line, run.out, run.err)
        assert run.out.splitlines()[0] == " ".join(known.get(word, word) for word in first.split(" "))
        change = re.search(r"\d{8}T[\d.]+-\w+", run.out + run.err)
        known["ID"] = change[0] if change else "ID"
    assert len(TASKS) == 10
