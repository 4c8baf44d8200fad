"""Ten tasks of an operator, each done in at most three commands, with the words that the answer has."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.cli.test_manual import copy_of, of_old_segments, with_services

Task = tuple[Callable[[Path], Path], list[tuple[str, int, str]]]
TASKS: dict[str, Task] = {
    "find an order": (copy_of("normal"), [("find order3", 0, "order3, user9, all")]),
    "say what a restart loses": (copy_of("corrupt-mid"), [("doctor", 1, r"\d+ messages would be lost on restart")]),
    "get the lost ones back": (
        copy_of("corrupt-mid"),
        [
            ("salvage --to NEW", 1, r"\d+ certain records"),
            ("--store NEW info", 0, r"450 messages .* nothing is missing"),
        ],
    ),
    "who fills the disk": (copy_of("normal"), [("usage", 0, r"TopicB +\d+ +[\d.]+ KiB")]),
    "lag of a group": (with_services, [("lag", 1, r"\d of \d groups behind")]),
    "reset it": (
        with_services,
        [
            ("lag --queues", 1, r"CG_order +PlainA +1 +behind"),
            ("config reset-offsets CG_order --topic PlainA --to last --yes", 0, r"changed the store"),
            ("lag --group CG_order --topic PlainA", 0, r"0 of 1 group behind"),
        ],
    ),
    "free the disk": (
        of_old_segments,
        [
            ("clean-expired --reserved-hours 48 --force --dry-run", 0, r"would change the store"),
            ("clean-expired --reserved-hours 48 --force --yes", 0, r"changed the store"),
            ("quarantine purge --yes", 0, r"deleted"),
        ],
    ),
    "make a store start": (
        copy_of("aborted"),
        [("recover --yes", 0, r"changed the store"), ("simulate", 0, r"starts and loses nothing")],
    ),
    "undo": (
        copy_of("aborted"),
        [
            ("recover --yes", 0, "changed the store"),
            ("quarantine list", 0, r"recover"),
            ("undo ID", 0, r"files as before"),
        ],
    ),
    "watch it in Prometheus": (copy_of("normal"), [("doctor --format prometheus", 0, r"^rmqctl_\w+\{?.* \d")]),
}


@pytest.mark.leaves_damage
@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_done_in_three_commands_at_most(task: str, tmp_path: Path) -> None:
    build, commands = TASKS[task]
    root = build(tmp_path / "built")
    known = {"NEW": str(tmp_path / "new")}
    assert len(commands) <= 3
    for line, code, says in commands:
        words = [known.get(word, word) for word in line.split()]
        run = rmqctl(*words, store=None if "--store" in words else root)
        assert run.code == code, (line, run.out, run.err)
        assert re.search(says, run.out + run.err, re.MULTILINE), (line, run.out, run.err)
        change = re.search(r"\d{8}T[\d.]+-\w+", run.out + run.err)
        known["ID"] = change[0] if change else "ID"
    assert len(TASKS) == 10
