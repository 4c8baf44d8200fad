"""A segment of another length than the others: what would be lost is foretold, and a plan's commands leave no fault."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import rmqctl
from tests.support.five_stores import five
from tests.support.golden import FIXTURES, copy_store, golden, unpacked
from tests.support.refstore import SIZES, needs_refstore, refstore

SALVAGE = "salvage --to NEWSTORE"
SEGMENT = 65536
LINES = {"normal": "49", "corrupt-mid": "49", "services": "49", "normal5": "53", "bcq": "53", "timer": "53"}
CHANGING = ("recover", "rebuild", "checkpoint rewrite", "truncate-dirty")


def store_of(name: str) -> Path:
    if name == "services":
        return unpacked(FIXTURES / "services/services.tar.xz") / "services/store"
    return five(name) / "store" if name in ("bcq", "timer") else golden(name).store


def damaged(name: str, which: int, size: int, tmp_path: Path) -> Path:
    """Return a copy of a store with one segment of another length."""
    root = copy_store(store_of(name), tmp_path / "store")
    os.truncate(sorted((root / "commitlog").iterdir())[which], size)
    return root


def without_log(name: str, tmp_path: Path) -> Path:
    """Return a copy of a killed store that lost all of its log but the segment that was made ahead."""
    archive = FIXTURES / f"services/{name}.tar.xz"
    killed = unpacked(archive) / name / "store" if archive.exists() else None
    root = copy_store(
        killed or (five(name) if name.startswith(("bcq", "timer")) else golden(name).folder) / "store",
        tmp_path / "store",
    )
    for path in sorted((root / "commitlog").iterdir())[:-1]:
        path.unlink()
    return root


def doctor(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = rmqctl("--format", "json", "doctor", store=root).json
    return found


def plan(found: dict[str, Any]) -> list[str]:
    return [row["command"] for row in found.get("commands", ())]


def run_plan(root: Path, commands: list[str]) -> Path:
    """Run the commands, none of which is refused; return the store that they leave."""
    left = root
    for command in commands:
        left = root.with_name("new") if command == SALVAGE else left
        words = command.replace("NEWSTORE", str(left)).split()
        run = rmqctl(*words, *(["--yes"] if command.startswith(CHANGING) else []), store=root)
        assert run.code in (0, 1), (command, run.err)
    return left


def load(root: Path, line: str) -> dict[str, Any]:
    """Return what the real store says of itself after its load."""
    with refstore(line, "load", "--store", root, *SIZES, "--then-close", "none") as process:
        said: dict[str, Any] = json.loads(process.communicate(timeout=60)[0].splitlines()[-1])
    return said


EMPTY_LAST = [("normal", -1, 4), ("corrupt-mid", -1, 250), ("services", 0, 91), ("bcq", -1, 10), ("timer", 0, 93)]


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "which", "lost"), EMPTY_LAST)
def test_recover_alone_mends_what_an_empty_last_segment_leaves(
    name: str, which: int, lost: int, tmp_path: Path
) -> None:
    root = damaged(name, which, 0, tmp_path)
    found = doctor(root)
    assert (found["worst_rank"], found["lost_messages"]) == (1 if LINES[name] == "49" else 2, lost)
    mending = {"corrupt-mid": [SALVAGE, "recover", "truncate-dirty"]}.get(name, ["recover"])
    assert [one for one in plan(found) if one not in ("config check", "rebuild timer")] == mending
    run_plan(root, [one for one in plan(found) if one != SALVAGE])
    assert [one for one in plan(doctor(root)) if one.startswith(CHANGING)] == []


@needs_refstore
@pytest.mark.parametrize(("name", "which", "lost"), [("normal", -1, 4), ("normal5", -1, 11), ("services", 0, 91)])
def test_the_loss_is_that_of_the_real_store_without_the_file(name: str, which: int, lost: int, tmp_path: Path) -> None:
    root = damaged(name, which, 0, tmp_path)
    before = doctor(root)["message_count"]
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert start["lost"]["messages"] == lost
    if LINES[name] == "49":
        assert (load(root, "49")["loadOk"], start["starts"]) == (False, False)
        sorted((root / "commitlog").iterdir())[which].unlink()
    said = load(root, LINES[name])
    assert (said["loadOk"], said["maxPhyOffset"]) == (True, start["log_end"])
    assert sum(queue["max"] - queue["min"] for queue in said["queues"]) == before - lost


def test_what_the_start_loses_without_the_empty_file_is_in_the_verdict(tmp_path: Path) -> None:
    run = rmqctl("simulate", store=damaged("normal", -1, 0, tmp_path))
    assert run.out.splitlines()[0].endswith("; without this file it loses 4 messages")
    assert run.steps == ["recover"]


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "which", "size"),
    [
        ("normal", 0, 0),
        ("normal", 1, 0),
        ("bcq", 0, 0),
        ("normal", 0, 30000),
        ("corrupt-mid", 2, 30000),
        ("normal", -1, 30000),
        ("normal5", 1, 30000),
        ("normal", 0, SEGMENT + 20),
        ("normal", 1, SEGMENT + 20),
        ("bcq", -1, SEGMENT + 20),
    ],
)
def test_a_store_with_another_segment_of_a_wrong_length_is_salvaged_and_not_changed(
    name: str, which: int, size: int, tmp_path: Path
) -> None:
    root = damaged(name, which, size, tmp_path)
    found = doctor(root)
    assert (found["worst_rank"], plan(found)) == (1, [SALVAGE])
    assert rmqctl("check", store=root).steps == ["simulate", SALVAGE]
    assert [one for one in plan(doctor(run_plan(root, [SALVAGE]))) if not one.startswith("get ")] == []


@pytest.mark.parametrize(("which", "lost"), [(0, 224), (1, 222)])
def test_the_messages_of_an_empty_segment_in_front_of_others_are_no_expired_ones(
    which: int, lost: int, tmp_path: Path
) -> None:
    found = doctor(damaged("normal", which, 0, tmp_path))
    assert {one["what"]: one["count"] for one in found["diagnoses"]}["unit-nowhere"] == lost
    assert found["message_count"] == 450


WITHOUT_LOG = [("timer-aborted", 76), ("services5-aborted", 89), ("bcq-aborted", 213), ("aborted", 450)]


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "lost"), WITHOUT_LOG)
def test_what_the_queues_show_of_a_log_that_is_lost_but_for_a_segment_made_ahead_is_lost(
    name: str, lost: int, tmp_path: Path
) -> None:
    root = without_log(name, tmp_path)
    found = doctor(root)
    assert (found["worst_rank"], found["lost_messages"], plan(found)[0]) == (2, lost, "recover")
    nowhere = [one for one in rmqctl("--format", "json", "check", store=root).json["findings"] if one["topic"]]
    assert {one["kind"] for one in nowhere} == {"unit-nowhere"}
    assert sum(one["count"] for one in nowhere) == lost
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert (start["lost"]["messages"], start["lost"]["units_cut"]) == (lost, 0)
    run_plan(root, plan(found))
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert start["lost"]["messages"] == 0
    assert [one for one in plan(doctor(root)) if one.startswith(CHANGING)] == []


@needs_refstore
@pytest.mark.parametrize("name", ["timer-aborted", "services5-aborted"])
def test_the_real_store_shows_none_of_them(name: str, tmp_path: Path) -> None:
    said = load(without_log(name, tmp_path), "53")
    assert (said["minPhyOffset"], said["maxPhyOffset"]) == (SEGMENT, SEGMENT)
    assert [queue for queue in said["queues"] if queue["min"] < queue["max"]] == []


def test_messages_that_expired_before_the_log_are_not_lost_again(tmp_path: Path) -> None:
    root = copy_store(golden("preblank").folder, tmp_path / "store")
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert start["lost"]["messages"] == 0


LONE = [("timer", SEGMENT - 154), ("timer", SEGMENT + 20), ("services", 30000), ("services", SEGMENT + 20)]


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "size"), LONE)
def test_a_lone_segment_of_an_odd_length_is_never_called_sound(name: str, size: int, tmp_path: Path) -> None:
    root = damaged(name, 0, size, tmp_path)
    assert [one["kind"] for one in rmqctl("--format", "json", "check", store=root).json["findings"]] == ["odd-size"]
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert (start["starts"], [trap["name"] for trap in start["traps"]]) == (True, ["odd-size"])
    found = doctor(root)
    assert (found["worst_rank"], plan(found)[0]) == (3, SALVAGE)
    new = run_plan(root, [SALVAGE])
    assert rmqctl("--format", "json", "check", store=new).json["finding_count"] == 0
    assert doctor(new)["message_count"] == found["message_count"]


def lone(size: int, tmp_path: Path) -> Path:
    """Return a store with the first segment alone, which ends in a blank, of another length."""
    root = copy_store(golden("normal").store, tmp_path / "store")
    first, *others = sorted((root / "commitlog").iterdir())
    for path in others:
        path.unlink()
    os.truncate(first, size)
    return root


@pytest.mark.parametrize("size", [2 * SEGMENT, 3 * SEGMENT])
def test_a_lone_segment_has_the_length_that_the_blank_in_it_gives(size: int, tmp_path: Path) -> None:
    root = lone(size, tmp_path)
    detail = (
        f"{size} bytes, and the blank behind its last record gives it 65536: "
        f"unless its mappedFileSizeCommitLog is {size}, no broker starts with it"
    )
    found = rmqctl("--format", "json", "check", store=root).json["findings"]
    assert [one["detail"] for one in found if one["kind"] == "odd-size"] == [detail]
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert [trap["detail"] for trap in start["traps"] if trap["name"] == "odd-size"] == [detail]
    told = ("--set", f"mappedFileSizeCommitLog={size}")
    given = rmqctl("--format", "json", *told, "check", store=root).json["findings"]
    assert given == [one for one in found if one["kind"] != "odd-size"]
    [start] = rmqctl("--format", "json", *told, "simulate", store=root).json["outcomes"]
    assert "odd-size" not in [trap["name"] for trap in start["traps"]]
    assert SALVAGE in plan(doctor(root))
    new = run_plan(root, [SALVAGE])
    assert {one.stat().st_size for one in (new / "commitlog").iterdir()} == {SEGMENT}
    assert [one["kind"] for one in rmqctl("--format", "json", "check", store=new).json["findings"]] == []


def test_a_lone_segment_as_long_as_its_blank_says_is_sound_in_its_length(tmp_path: Path) -> None:
    found = rmqctl("--format", "json", "check", store=lone(SEGMENT, tmp_path)).json["findings"]
    assert sorted({one["kind"] for one in found}) == ["checkpoint-ahead", "index-entry-nowhere", "unit-nowhere"]


@pytest.mark.parametrize("size", [1 << 31, 5 << 30])
def test_a_segment_that_no_setting_can_have_is_of_a_wrong_length_and_can_be_salvaged(size: int, tmp_path: Path) -> None:
    root = lone(size, tmp_path)
    found = rmqctl("--format", "json", "check", store=root).json["findings"]
    kinds = sorted({one["kind"] for one in found})
    assert kinds == ["checkpoint-ahead", "index-entry-nowhere", "unit-nowhere", "wrong-size"]
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert (start["starts"], start["reason"].partition(": ")[2].partition(";")[0]) == (
        False,
        f"the file has {size} bytes instead of 1073741824",
    )
    assert (rmqctl("info", store=root).code, rmqctl("recover", "--dry-run", store=root).code) == (1, 4)
    assert (doctor(root)["worst_rank"], plan(doctor(root))) == (1, [SALVAGE])
    new = run_plan(root, [SALVAGE])
    assert {one.stat().st_size for one in (new / "commitlog").iterdir()} == {SEGMENT}


@pytest.mark.parametrize(("given", "kinds"), [(SEGMENT, ["wrong-size"]), (SEGMENT - 154, [])])
def test_a_given_size_judges_a_lone_segment(given: int, kinds: list[str], tmp_path: Path) -> None:
    root, told = damaged("timer", 0, SEGMENT - 154, tmp_path), ("--set", f"mappedFileSizeCommitLog={given}")
    found = rmqctl("--format", "json", *told, "check", store=root).json["findings"]
    assert [one["kind"] for one in found] == kinds
    [start] = rmqctl("--format", "json", *told, "simulate", store=root).json["outcomes"]
    assert (start["starts"], start["traps"]) == (not kinds, [])


@needs_refstore
@pytest.mark.parametrize(("name", "size"), LONE)
def test_no_real_store_of_another_size_starts_with_it(name: str, size: int, tmp_path: Path) -> None:
    assert not load(damaged(name, 0, size, tmp_path), LINES[name])["loadOk"]


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "which", "size", "lost", "saved"),
    [
        ("normal", 0, 0, 224, 251),
        ("normal", 1, 0, 222, 253),
        ("normal", 0, SEGMENT + 20, 0, 500),
        ("normal", 1, SEGMENT + 20, 0, 500),
        ("normal5", 1, SEGMENT + 20, 0, 500),
        ("normal", -1, 30000, 0, 500),
        ("normal", 0, 30000, 123, 364),
    ],
)
def test_a_salvage_counts_what_the_file_lost_and_nothing_else(
    name: str, which: int, size: int, lost: int, saved: int, tmp_path: Path
) -> None:
    report = rmqctl("--format", "json", "salvage", store=damaged(name, which, size, tmp_path)).json
    assert (report["lost_messages"], report["saved_records"]) == (lost, saved)


def test_written_bytes_past_the_end_of_a_segment_are_no_part_of_its_blank(tmp_path: Path) -> None:
    root = damaged("normal", 1, SEGMENT, tmp_path)
    with (root / "commitlog" / f"{SEGMENT:020d}").open("ab") as file:
        file.write(b"x" * 200)
    [gap] = rmqctl("--format", "json", "salvage", store=root).json["gaps"]
    assert (gap["log_offset"], gap["size_bytes"]) == (130867, 205)


@pytest.mark.parametrize(
    ("name", "which", "size"),
    [
        ("normal", 0, 2 * SEGMENT),
        ("normal", 1, SEGMENT + 164),
        ("normal5", 1, SEGMENT + 20),
        ("bcq", 0, SEGMENT + 4096),
    ],
)
def test_entries_of_the_segment_after_one_that_is_too_long_are_in_their_place(
    name: str, which: int, size: int, tmp_path: Path
) -> None:
    found = rmqctl("--format", "json", "check", store=damaged(name, which, size, tmp_path)).json["findings"]
    assert [(one["kind"], one["offset"], one["detail"]) for one in found] == [
        ("wrong-size", which * SEGMENT, f"{size} bytes, expected {SEGMENT}; no broker starts with it")
    ]


@pytest.mark.parametrize(("size", "plan"), [(0, []), (SEGMENT, [SALVAGE])])
def test_for_a_segment_file_no_command_is_advised_that_takes_a_folder(
    size: int, plan: list[str], tmp_path: Path
) -> None:
    segment = sorted((damaged("corrupt-mid", 1, size, tmp_path) / "commitlog").iterdir())[1]
    for file in (segment, segment.parent / f"{0:020d}"):
        run = rmqctl("--format", "json", "check", store=file)
        assert run.steps == (plan if file == segment else [])
        assert [one["mended_by"] for one in run.json["findings"]] == [None] * (file == segment)
