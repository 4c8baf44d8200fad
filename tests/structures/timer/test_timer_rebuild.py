"""The timer's files: damage and stale state are found, and a rebuild gives every message its state again."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from store import check, open_store
from store.structures.timer.message import TimerMessage
from store.structures.timer.review import review_timers
from tests.cli.running import rmqctl
from tests.support.five_stores import copy_of_five, damage, five, fivefive, lines
from tests.support.golden import copy_store
from tests.support.quickly import one_of
from tests.support.snapshots import snapshot
from tests.support.stores import make_store

NAMES = ("timer", "timer-aborted", "timer-roll", "timer-rolled")
WINDOWS = {"timer": 172_800, "timer-aborted": 172_800, "timer-roll": 1800, "timer-rolled": 5}
UNIT = 52


def states(root: Path) -> Counter[tuple[str, str | None, int]]:
    with open_store(root) as store:
        messages: list[TimerMessage] = review_timers(store.opened, 0).messages
    return Counter((one.state.value, one.uniq_key, one.queue_offset) for one in messages)


@pytest.mark.parametrize("name", NAMES)
def test_a_backup_without_timer_files_shows_the_states_of_its_store(name: str, tmp_path: Path) -> None:
    root, backups = copy_of_five(name, tmp_path), tmp_path / "backups"
    assert rmqctl("backup", "create", backups, store=root).code == 0
    of_store, of_backup = (
        [(one["queue_offset"], one["state"]) for one in document.json["messages"]]
        for document in (
            rmqctl("--format", "json", "timer", "show", store=place) for place in (root, f"backup:{backups}")
        )
    )
    # The log alone does not tell when a delete and its message roll.
    assert of_backup == [(at, state.replace("deleteRolling", "deleted")) for at, state in of_store]


def test_states_of_the_log_alone_come_with_the_note_that_duplicates_are_unknown(tmp_path: Path) -> None:
    root, backups = copy_of_five("timer-rolled", tmp_path), tmp_path / "backups"
    set_back(root, 60_000)
    assert rmqctl("backup", "create", backups, store=root).code == 0
    of_store, of_backup = (
        rmqctl("--format", "json", "timer", "show", store=place) for place in (root, f"backup:{backups}")
    )
    assert [run.json["counts"]["duplicate"] for run in (of_store, of_backup)] == [80, 0]
    notes = [[line for line in run.err.splitlines() if "timerwheel" in line] for run in (of_store, of_backup)]
    said = (
        "without timerwheel, timerlog and timercheck, the states are those that the log shows: the read time and "
        "what a start delivers again (duplicate) are unknown"
    )
    assert notes == [[], [said]]


def set_back(root: Path, ms: int) -> int:
    """Set timercheck's read time back, and return what it was."""
    place = root / "config/timercheck"
    data = place.read_bytes()
    read_time_ms = int.from_bytes(data[:8], "big")
    place.write_bytes((read_time_ms - ms).to_bytes(8, "big") + data[8:])
    return read_time_ms


@pytest.mark.turns(3)
@pytest.mark.parametrize("ms", [2000, 60_000])
@pytest.mark.parametrize("name", ["timer", "timer-rolled"])
def test_a_rebuild_repeats_nothing_that_was_delivered_after_timercheck_was_saved(
    name: str, ms: int, tmp_path: Path
) -> None:
    root = copy_of_five(name, tmp_path)
    before = states(root)
    read_time_ms = set_back(root, ms)
    run = rmqctl("--format", "json", "timer", "rebuild", "--yes", "--roll-window", WINDOWS[name], store=root)
    assert (run.code, kinds(root), _effects(states(root))) == (0, set(), _effects(before))
    # The last slots may have had nothing to deliver.
    assert read_time_ms - ms <= run.json["read_time_ms"] <= read_time_ms
    assert rmqctl("--format", "json", "doctor", store=root).json["diagnoses"] == []


def kinds(root: Path) -> set[str]:
    return {finding.kind for finding in check(root)}


@pytest.mark.parametrize("name", NAMES)
def test_sound_files_have_no_findings(name: str) -> None:
    assert list(check(five(name) / "store")) == []


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("case", "found"),
    [
        ("wheel removed", {"timer-files"}),
        ("timercheck removed", {"timer-files"}),
        ("timercheck zero", {"timer-files"}),
        ("timerlog removed", {"timer-files"}),
        ("timermetrics removed", {"timer-state"}),
    ],
)
def test_each_damage_that_a_broker_met_is_found(case: str, found: set[str], tmp_path: Path) -> None:
    root = copy_of_five("timer", tmp_path)
    damage(root, next(line["damage"] for line in lines("timer", "damaged.jsonl") if line["damage"]["name"] == case))
    assert kinds(root) == found


@pytest.mark.parametrize(("name", "lost"), one_of(13, NAMES, ["timerwheel", "timerlog", "config/timercheck"]))
def test_a_rebuild_gives_every_message_its_state_again(name: str, lost: str, tmp_path: Path) -> None:
    root = copy_of_five(name, tmp_path)
    before = states(root)
    if lost != "config/timercheck":
        damage(root, {"remove": [lost]})
    window = ("--roll-window", WINDOWS[name])
    run = rmqctl("timer", "rebuild", "--yes", *window, store=root)
    assert run.code == 0, run.err
    assert kinds(root) == set()
    assert _effects(states(root)) == _effects(before)


def _effects(found: Counter[tuple[str, str | None, int]]) -> Counter[tuple[str, str | None]]:
    """What comes of each message: a delete that rolls and one that is effective come to the same."""
    same = {"deleteRolling": "deleted", "lost": "pending"}
    return Counter((same.get(state, state), key) for state, key, _ in found.elements())


def test_a_store_without_timers_gets_no_files_of_a_timer(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 10)
    before = snapshot(root)
    run = rmqctl("rebuild", "timer", "--yes", store=root)
    assert (run.code, "the store has no timers: nothing is built" in run.err) == (0, True)
    assert (snapshot(root), rmqctl("--format", "json", "info", store=root).json["compat"]) == (before, "4.9")


def test_a_rebuild_says_that_no_file_tells_the_time(tmp_path: Path) -> None:
    root = copy_of_five("timer", tmp_path)
    damage(root, {"remove": ["config/timercheck", "checkpoint"]})
    run = rmqctl("timer", "rebuild", "--dry-run", store=root)
    assert "timercheck and checkpoint hold no time" in run.err


@pytest.mark.turns(3)
def test_a_rebuild_without_a_checkpoint_delivers_nothing_twice(tmp_path: Path) -> None:
    root = copy_of_five("timer", tmp_path)
    before = states(root)
    damage(root, {"remove": ["config/timercheck"]})
    assert rmqctl("timer", "rebuild", "--yes", store=root).code == 0
    assert kinds(root) == set()
    pending = {key for state, key, _ in before if state == "pending"}
    assert {key for state, key, _ in states(root) if state == "pending"} == pending


@pytest.mark.turns(3)
@pytest.mark.parametrize("text", [None, "{", '{"dataVersion":{},"timingCount":{}}'])
def test_a_rebuild_counts_pending_messages_anew_where_their_table_is_lost(text: str | None, tmp_path: Path) -> None:
    root = copy_of_five("timer", tmp_path)
    metrics = root / "config/timermetrics"
    metrics.unlink() if text is None else metrics.write_text(text, encoding="utf-8")
    assert kinds(root) == {"timer-state"}
    assert rmqctl("timer", "rebuild", "--yes", store=root).code == 0
    assert kinds(root) == set()
    found = json.loads(metrics.read_text(encoding="utf-8"))["timingCount"]
    # The broker's own number for TimerA had drifted to 23: it counts a delete that fires once more.
    assert {topic: row["count"] for topic, row in found.items()} == {"TimerA": 24, "TimerB": 16}


@pytest.mark.turns(3)
def test_a_rebuild_can_be_undone(tmp_path: Path) -> None:
    root = copy_of_five("timer", tmp_path)
    before = (root / "timerwheel").read_bytes(), (root / "config/timercheck").read_bytes()
    change = rmqctl("--format", "json", "timer", "rebuild", "--yes", store=root).json["change_id"]
    assert rmqctl("undo", change, store=root).code == 0
    assert ((root / "timerwheel").read_bytes(), (root / "config/timercheck").read_bytes()) == before


@pytest.mark.parametrize("at", [-3, 0, 10])
@pytest.mark.parametrize("name", ["timer", "snapshot", "five"])
def test_a_truncated_log_leaves_no_truncated_message_on_the_wheel(name: str, at: int, tmp_path: Path) -> None:
    is_five = name == "five"
    root = copy_of_five("timer", tmp_path) if is_five else copy_store(fivefive(name) / "store", tmp_path / "store")
    with open_store(root) as store:
        end = review_timers(store.opened, 0).messages[at].log_offset
    assert rmqctl("truncate-dirty", "--offset", end, "--yes", store=root).code == 0
    assert kinds(root) == set()


@pytest.mark.turns(2)
@pytest.mark.parametrize(("field", "kind"), [(4, "timer-log"), (31, "timer-stale"), (39, "timer-stale")])
def test_a_changed_field_of_a_unit_is_found(field: int, kind: str, tmp_path: Path) -> None:
    root = copy_of_five("timer", tmp_path)
    damage(root, {"bytes": [["timerlog/00000000000000000000", UNIT * 3 + field, "7f"]]})
    assert kind in kinds(root)


@pytest.mark.turns(3)
def test_random_damage_to_a_live_slot_is_found(tmp_path: Path) -> None:
    root = copy_of_five("timer", tmp_path)
    with open_store(root) as store:
        pending = [one for one in review_timers(store.opened, 0).messages if one.state == "pending"]
    choice, wheel = random.Random(3), root / "timerwheel"
    for _ in range(12):
        slot = choice.choice(pending).slot_timestamp_ms // 1000 % 1_209_600
        at = slot * 32 + choice.randrange(8, 32)
        with wheel.open("r+b") as file:
            file.seek(at)
            before = file.read(1)
            file.seek(at)
            file.write(bytes([before[0] ^ choice.randrange(1, 256)]))
        assert kinds(root) >= {"timer-wheel"}, at
        with wheel.open("r+b") as file:
            file.seek(at)
            file.write(before)
    assert kinds(root) == set()


@pytest.mark.turns(2)
@pytest.mark.parametrize("options", [(), ("--keep-offsets",)])
def test_a_salvaged_store_has_the_files_of_its_timers(options: tuple[str, ...], tmp_path: Path) -> None:
    source, target = copy_of_five("timer-aborted", tmp_path / "source"), tmp_path / "new"
    assert rmqctl("salvage", *options, "--to", target, store=source).code == 0
    assert kinds(target) == set()
    assert states(target) == states(source)
