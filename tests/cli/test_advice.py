"""One plan for a store: check, simulate and info give parts of doctor's, in its order, and no cut before a salvage."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from rmqctl.advice import CUT, SALVAGE, Step, command_for, mended_by, plan_of
from tests.cli.running import rmqctl
from tests.support.five_stores import ARCHIVES, five
from tests.support.golden import ALL, copy_store, golden
from tests.support.random_damage import damage

STORES = {name: lambda name=name: golden(name).store for name in ALL}
STORES |= {
    f"five/{path.name}": lambda path=path: five(path.name[:-7]) / "store" for path in sorted(ARCHIVES.glob("*.xz"))
}
NOTED = re.compile(r"^step \d+: rmqctl --store \S+ (.+) \([^()]*\)$", re.MULTILINE)


def noted(command: str, root: Path) -> list[str]:
    return NOTED.findall(rmqctl(command, store=root).err)


def plan(root: Path) -> list[str]:
    run = rmqctl("--format", "json", "doctor", store=root)
    assert run.code in (0, 1), run.err
    return [row["command"] for row in run.json.get("commands", ())]


def covering(steps: list[str], plan: list[str]) -> list[str]:
    """The steps of the plan that do what these steps do, in the order of these."""
    return [next((one for one in plan if f"{step} ".startswith(f"{one} ")), f"no {step}") for step in steps]


def assert_one_plan(root: Path) -> None:
    whole = plan(root)
    for command in ("check", "simulate"):
        part = covering(noted(command, root), whole)
        assert [step for step in whole if step in part] == part, (command, part, whole)
    info = rmqctl("--format", "json", "info", store=root).json
    first = info["next_command"].split(f"{root} ")[1]
    assert covering([first], [*whole, "check"])[0] in [*whole, "check"]
    assert not info["problems"] or whole
    assert SALVAGE not in whole or CUT not in whole or whole.index(SALVAGE) < whole.index(CUT)


@pytest.mark.parametrize("name", STORES)
def test_every_command_gives_a_part_of_one_plan_for_a_real_store(name: str, tmp_path: Path) -> None:
    assert_one_plan(copy_store(STORES[name](), tmp_path / "store"))


@pytest.mark.parametrize("seed", range(12))
def test_every_command_gives_a_part_of_one_plan_for_a_damaged_store(seed: int, tmp_path: Path) -> None:
    root = copy_store(golden(random.Random(seed).choice(["normal", "many", "batch"])).store, tmp_path / "store")
    damage(root, random.Random(seed))
    assert_one_plan(root)


@pytest.mark.parametrize(
    ("wanted", "ordered"),
    [
        ([CUT, SALVAGE], [SALVAGE, CUT]),
        ([CUT, "recover"], ["recover"]),
        (
            ["config check", "rebuild --index", "recover", "undo 7"],
            ["undo 7", "recover", "rebuild --index", "config check"],
        ),
        (["rebuild --queues --dry-run", "rebuild --queues"], ["rebuild --queues"]),
        (["rebuild --queues --topic A --queue 1"], ["rebuild --queues --topic A --queue 1"]),
        (["rebuild --queues --topic A --queue 1", "rebuild --queues --topic A --queue 2"], ["rebuild --queues"]),
        (["", "checkpoint show"], ["checkpoint show"]),
    ],
)
def test_a_plan_has_each_command_once_in_the_order_that_loses_nothing(wanted: list[str], ordered: list[str]) -> None:
    assert [step.command for step in plan_of(wanted)] == ordered


def test_a_step_says_what_it_costs_and_whether_undo_takes_it_back() -> None:
    assert plan_of(["get A --queue 0 --offset 1", "rebuild --index", SALVAGE]) == [
        Step(SALVAGE, "reads the whole log, writes a second store"),
        Step("rebuild --index", "reads the whole log, writes the derived files anew", can_be_undone=True),
        Step("get A --queue 0 --offset 1"),
    ]


def test_a_withheld_command_is_in_no_plan() -> None:
    assert plan_of(["rebuild --queues --topic A --queue 1", CUT], ["rebuild --queues", CUT]) == []


def test_the_first_command_of_a_fault_keeps_and_the_last_one_mends() -> None:
    assert (command_for("bad-crc"), mended_by("bad-crc", None)) == (SALVAGE, CUT)
    assert (command_for("stale-tail"), mended_by("stale-tail", None)) == ("stale", CUT)
    assert (mended_by("wrong-size", None), mended_by("wrong-size", "T")) == (None, "rebuild --queues")
    assert mended_by("missing-segment", None) is None
