"""One plan for a store: check, simulate and info give parts of doctor's, in its order, and no cut before a salvage."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from rmqctl.advice import (
    CUT,
    INDEX,
    MENDING,
    QUEUES,
    SALVAGE,
    Fault,
    Remedies,
    Step,
    command_for,
    commands_for,
    fault_of,
    mended_by,
    step_of,
)
from store import check, open_store
from store.structures.findings import KINDS
from store.structures.registry import STRUCTURES
from tests.cli.running import rmqctl
from tests.support.five_stores import five, fivefive, names_of
from tests.support.golden import ALL, copy_store, golden
from tests.support.quickly import one_of
from tests.support.random_damage import damage
from tests.support.snapshots import contents
from tests.support.stores import SMALL, make_store, overwrite

STORES = {name: lambda name=name: golden(name).store for name in ALL}
STORES |= {f"five/{name}": lambda name=name: five(name) / "store" for name in names_of("five")}
STORES |= {f"fivefive/{name}": lambda name=name: fivefive(name) / "store" for name in names_of("fivefive")}
SMALL_SETS = tuple(word for name, value in SMALL.items() for word in ("--set", f"{name}={value}"))
DONE_HERE = ("check", "simulate")
"""What doctor has done itself."""


def plan(root: Path) -> list[str]:
    run = rmqctl("--format", "json", "doctor", store=root)
    assert run.code == int(bool(run.json["diagnoses"])), run.err
    return [*DONE_HERE, *(row["command"] for row in run.json.get("commands", ()))]


def covering(steps: list[str], plan: list[str]) -> list[str]:
    """The steps of the plan that do what these steps do, in the order of these."""
    return [next((one for one in plan if f"{step} ".startswith(f"{one} ")), f"no {step}") for step in steps]


def assert_one_plan(root: Path) -> None:
    whole = plan(root)
    for command in ("check", "simulate"):
        part = covering(rmqctl(command, store=root).steps, whole)
        assert [step for step in whole if step in part] == part, (command, part, whole)
    info = rmqctl("--format", "json", "info", store=root).json
    first = info["next_command"].split(f"{root} ")[1]
    assert covering([first], whole)[0] in whole
    assert SALVAGE not in whole or CUT not in whole or whole.index(SALVAGE) < whole.index(CUT)


@pytest.mark.parametrize("name", one_of(13, STORES))
def test_every_command_gives_a_part_of_one_plan_for_a_real_store(name: str, tmp_path: Path) -> None:
    assert_one_plan(copy_store(STORES[name](), tmp_path / "store"))


@pytest.mark.parametrize("seed", one_of(7, range(12)))
def test_every_command_gives_a_part_of_one_plan_for_a_damaged_store(seed: int, tmp_path: Path) -> None:
    root = copy_store(golden(random.Random(seed).choice(["normal", "many", "batch"])).store, tmp_path / "store")
    damage(root, random.Random(seed))
    assert_one_plan(root)


def test_a_step_that_changes_a_store_is_for_a_copy_of_a_backup(tmp_path: Path) -> None:
    root, backups = copy_store(golden("corrupt-mid").store, tmp_path / "store"), tmp_path / "backups"
    assert rmqctl("backup", "create", str(backups), store=root).code == 0
    notes = rmqctl("--store", f"backup:{backups}", "simulate").err.splitlines()
    reads, cuts = (
        "reads the whole log, writes a second store",
        "removes all records past the offset; undo takes it back",
    )
    assert [note for note in notes if note.startswith("step ")] == [
        f"step 1: rmqctl --store backup:{backups} salvage --to NEWSTORE ({reads})",
        f"step 2: rmqctl --store COPY truncate-dirty ({cuts}; COPY is this store in a folder of this machine)",
    ]


def test_messages_behind_a_zeroed_head_are_kept_before_the_log_is_cut(tmp_path: Path) -> None:
    root = copy_store(golden("normal").store, tmp_path / "store")
    with open_store(root, as_is=True) as store:
        at = store.get("TopicA", 0, 20).messages[0].log_offset
    overwrite(root / "commitlog" / f"{65536:020d}", at - 65536, bytes(8))
    assert_one_plan(root)
    assert rmqctl("check", store=root).steps == ["stale", SALVAGE, CUT, INDEX]
    for step in (CUT, INDEX):
        assert rmqctl(*step.split(), "--yes", store=root).code == 0
    assert list(check(root)) == []


@pytest.mark.leaves_damage
def test_the_salvage_that_is_named_for_records_that_the_log_lacks_leaves_a_sound_store(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 60)
    with open_store(root) as store:
        lost = [store.get("T", 0, 5).messages[0], store.get("T", 1, 9).messages[0]]
    for one in lost:
        # A record of another topic in its place, and sound.
        record = (root / "commitlog" / f"{0:020d}").read_bytes()[one.log_offset :][: one.size]
        at = record.index(b"\x01T") + 1
        overwrite(root / "commitlog" / f"{0:020d}", one.log_offset + at, b"U")
        overwrite(root / "commitlog" / f"{0:020d}", one.log_offset + 20, (one is lost[1]).to_bytes(8, "big"))
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    found = rmqctl("--format", "json", "check", store=root)
    assert {one["kind"] for one in found.json["findings"]} == {"lost-index", "missing-record", "missing-unit"}
    assert found.steps == [SALVAGE, INDEX]
    saved = rmqctl("--format", "json", "salvage", "--to", tmp_path / "new", *SMALL_SETS, store=root)
    assert (saved.json["saved_records"], saved.json["placeholder_records"]) == (60, 2)
    assert list(check(tmp_path / "new")) == []


@pytest.mark.parametrize(
    ("codes", "ordered"),
    [
        (["bad-crc"], [SALVAGE, CUT]),
        (["bad-crc", "not-shut-down"], ["simulate", SALVAGE, "recover", CUT]),
        (["bad-length", "not-shut-down"], ["simulate", SALVAGE, "recover"]),
        (["not-shut-down"], ["simulate"]),
        (["not-shut-down", "bad-self-offset"], ["simulate", SALVAGE]),
        (
            ["config-table", "lost-index", "loses-damaged", "stale-tail"],
            ["stale", "recover", CUT, INDEX, "config check"],
        ),
        (["stale-tail", "unit-nowhere"], ["stale", SALVAGE, CUT, QUEUES]),
        (["stale-tail", "unit-differs"], ["stale", CUT, QUEUES]),
        (["index-ahead"], [INDEX]),
        (["index-ahead", "not-shut-down"], ["simulate", "recover"]),
        (["index-ahead", "lost-index", "not-shut-down"], ["simulate", "recover", INDEX]),
        (["index-keys", "not-shut-down"], ["simulate", "recover --keep-index"]),
        (
            ["index-keys", "not-shut-down", "bad-crc", "loses-intact"],
            ["simulate", SALVAGE, "recover --keep-index", CUT],
        ),
        (["no-queues", "unit-differs"], [QUEUES]),
        (["missing-unit", "missing-segment"], [SALVAGE]),
        (["missing-unit", "newer"], []),
        (["no-checkpoint"], ["checkpoint show"]),
        (["wrong-size"], ["simulate", SALVAGE]),
        (["wrong-size", "bad-length", "not-shut-down"], ["simulate", SALVAGE]),
        (["wrong-size", "unit-nowhere", "index-entry-nowhere", "checkpoint-ahead"], ["simulate", SALVAGE]),
        (["empty-segment", "unit-nowhere", "index-entry-nowhere", "checkpoint-ahead", "index-ahead"], ["recover"]),
        (["empty-segment", "unit-nowhere", "missing-unit", "lost-index"], ["recover", QUEUES, INDEX]),
        (["empty-segment", "loses-intact"], [SALVAGE, "recover", CUT]),
        (["loses-damaged", "unit-nowhere", "index-ahead"], ["recover", QUEUES]),
        (["missing-record", "queue-shift"], [SALVAGE]),
        (["missing-record", "missing-unit", "missing-index-entry"], [SALVAGE, INDEX]),
        (["missing-record", "no-queues"], [SALVAGE]),
        (["queue-leap", "queue-shift"], []),
        (["queue-leap", "queue-shift", "unit-differs"], [QUEUES]),
        (["no-such-code"], []),
    ],
)
def test_a_plan_has_each_command_once_in_the_order_that_loses_nothing(codes: list[str], ordered: list[str]) -> None:
    assert [step.command for step in Remedies([(code, ()) for code in codes]).plan()] == ordered


def test_one_queue_is_built_alone_and_two_are_built_with_all() -> None:
    lost = [fault_of("wrong-size", "A", 1), fault_of("wrong-size", "A", 2)]
    assert [step.command for step in Remedies(lost[:1]).plan()] == [f"{QUEUES} --topic A --queue 1"]
    assert [step.command for step in Remedies(lost).plan()] == [QUEUES]
    assert fault_of("wrong-size", None, None) == ("wrong-size", ())


def test_queues_are_built_one_by_one_where_another_lacks_a_record() -> None:
    lost = [("missing-record", ()), fault_of("wrong-size", "A", 1), ("lost-queue", ("A", 2))]
    assert Remedies(lost).plan() == [
        Step(SALVAGE, "reads the whole log, writes a second store"),
        Step(f"{QUEUES} --topic A --queue 1", "reads the whole log, rewrites one queue", can_be_undone=True),
        Step(f"{QUEUES} --topic A --queue 2", "reads the whole log, rewrites one queue", can_be_undone=True),
    ]


def test_a_queue_file_of_a_wrong_length_is_built_before_a_recovery_opens_it(tmp_path: Path) -> None:
    root = copy_store(golden("aborted").store, tmp_path / "store")
    with (root / "consumequeue/TopicA/3/00000000000000000000").open("ab") as file:
        file.write(bytes(20))
    assert plan(root) == [*DONE_HERE, QUEUES, "recover"]
    for step in (QUEUES, "recover"):
        assert rmqctl(*step.split(), "--yes", store=root).code == 0
    assert list(check(root)) == []


def test_a_step_says_what_it_costs_and_whether_undo_takes_it_back() -> None:
    assert Remedies([("placeholder", ("A", 0, 1)), ("lost-index", ()), ("bad-self-offset", ())]).plan() == [
        Step(SALVAGE, "reads the whole log, writes a second store"),
        Step(INDEX, "reads the whole log, rewrites the index", can_be_undone=True),
        Step("get A --queue 0 --from 1"),
    ]


def test_no_plan_has_what_is_withheld_or_done() -> None:
    faults: list[Fault] = [("missing-unit", ()), ("stale-tail", ()), ("damage", ()), ("index-keys", ())]
    plan = Remedies(faults, withheld=[QUEUES, "recover"]).plan(done=["stale"])
    assert [step.command for step in plan] == ["simulate", CUT]


def test_the_first_command_of_a_fault_keeps_and_the_last_one_mends() -> None:
    assert (command_for("bad-crc"), mended_by("bad-crc", None)) == (SALVAGE, CUT)
    assert (command_for("stale-tail"), mended_by("stale-tail", None)) == ("stale", CUT)
    assert (mended_by("wrong-size", None), mended_by("wrong-size", "T")) == (None, QUEUES)
    assert mended_by("missing-segment", None) is None


@pytest.mark.parametrize(("beside", "kind", "command"), [
    ("bad-crc", "unit-nowhere", QUEUES), ("empty-segment", "unit-nowhere", "recover"),
    ("empty-segment", "checkpoint-ahead", "recover"), ("empty-segment", "unit-differs", QUEUES),
    ("queue-leap", "queue-shift", None), ("queue-leap", "unit-differs", QUEUES),
    ("missing-record", "unit-differs", None), ("missing-record", "lost-index", INDEX),
    ("missing-segment", "unit-differs", None), ("wrong-size", "lost-index", None), ("newer", "timer-log", None),
])  # fmt: skip
def test_a_fault_changes_the_command_that_mends_another(beside: str, kind: str, command: str | None) -> None:
    remedies = Remedies([(beside, ())])
    assert (remedies.mending(kind, "T"), remedies.first(kind)) == (command, command or "")


def test_the_last_command_for_each_kind_of_findings_mends_or_makes_a_new_store() -> None:
    for one in STRUCTURES:
        one.furniture("check")
    steps = {kind: [step_of(command) for command in commands_for(kind)] for kind in KINDS}
    only_look = {kind for kind, found in steps.items() if found and found[-1].cost == "only looks"}
    assert only_look == set()


@pytest.mark.parametrize(("code", "subject", "command"), [
    ("reset-offset", ("G", "T", 0), "config reset-offsets G --topic T --queue 0 --to last"),
    ("reset-offset", ("a b", "it's", 3), """config reset-offsets 'a b' --topic 'it'"'"'s' --queue 3 --to last"""),
    ("remove-entry", (), ""), ("restore-table", ("topics.json.bak",), ""), ("write-table", (), ""),
    ("compaction-record", (), ""), ("foreign-file", (), ""), ("time-backwards", (), ""),
])  # fmt: skip
def test_a_fault_without_a_mending_command_names_none(code: str, subject: tuple[object, ...], command: str) -> None:
    assert command_for(code, subject) == command


@pytest.mark.parametrize(("offset", "topic", "step"), [
    (40, "T", None), (41, "T", "config reset-offsets 'a group' --topic T --queue 1 --to last"),
    (1 << 40, "T", "config reset-offsets 'a group' --topic T --queue 1 --to last"), (41, "Gone", None),
])  # fmt: skip
def test_doctor_mends_an_offset_past_the_end_of_its_queue(
    offset: int, topic: str, step: str | None, tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", 120)
    (root / "config").mkdir()
    table = root / "config/consumerOffset.json"
    table.write_text(json.dumps({"offsetTable": {f"{topic}@a group": {"1": offset}}}))
    assert [one for one in plan(root) if "reset" in one] == ([step] if step else [])
    if step:
        assert rmqctl("doctor", "--fix", "--yes", store=root).code in (0, 1)
        assert "".join(table.read_text().split()) == '{"offsetTable":{"T@agroup":{1:40}}}'
        assert [one for one in plan(root) if "reset" in one] == []


def test_a_damaged_copy_in_a_compaction_log_is_mended_as_its_advice_says(tmp_path: Path) -> None:
    root = copy_store(five("compaction") / "store-before", tmp_path / "store")
    before = contents(root / "compaction")
    log = min((root / "compaction/compactionLog").glob("*/*/0*"))
    overwrite(log, 90, b"\xff")
    found = list(check(root))
    assert {one.kind for one in found} == {"compaction-record"}
    assert rmqctl("check", store=root).steps == []
    queue = log.parent.relative_to(root / "compaction/compactionLog")
    for folder in ("compactionLog", "compactionCq"):
        (root / "compaction" / folder / queue).rename(tmp_path / folder)
    assert rmqctl("check", store=root).steps == ["rebuild compaction"]
    assert rmqctl("rebuild", "compaction", "--yes", store=root).code == 0
    assert contents(root / "compaction") == before


@pytest.mark.leaves_damage
@pytest.mark.parametrize("name", ["corrupt-mid", "torn"])
def test_after_all_commands_of_a_plan_nothing_is_left_to_find(name: str, tmp_path: Path) -> None:
    root = copy_store(golden(name).store, tmp_path / "store")
    steps = [step for step in plan(root) if step not in DONE_HERE]
    for step in steps:
        words = step.replace("NEWSTORE", str(tmp_path / "new")).split()
        assert rmqctl(*words, *(["--yes"] if step in MENDING else []), store=root).code in (0, 1), step
    assert rmqctl("--format", "json", "doctor", store=root).json["diagnoses"] == []
