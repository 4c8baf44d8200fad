"""The whole examination: what is wrong, the worst first, each with the command that mends it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rmqctl.commands import doctor as doctor_command
from store.files.filesystem import Filesystem
from store.files.lock import StoreLock
from store.opened import make_layout
from store.verbs import examine
from tests.cli.running import rmqctl
from tests.conftest import CopyOf
from tests.engine.services.stores import unpack
from tests.support.golden import CLEAN, golden
from tests.support.snapshots import snapshot
from tests.support.stores import Clock, make_store
from tests.verbs.recorded_stores import make


def doctor(root: Path, *options: str) -> Any:
    run = rmqctl("--format", "json", "doctor", *options, store=root)
    assert run.code == (1 if run.json["worst_rank"] else 0), run.err
    return run.json


@pytest.mark.parametrize("name", [name for name in CLEAN if name != "no-derived"])
def test_a_store_that_a_broker_closed_is_sound(name: str) -> None:
    answer = doctor(golden(name).store)
    assert (answer["worst_rank"], answer["diagnoses"], "commands" in answer) == (0, [], False)


def test_damage_in_the_middle_comes_first_with_what_can_be_saved(copy_of: CopyOf) -> None:
    _, root = copy_of("corrupt-mid")
    first = doctor(root)["diagnoses"][0]
    assert (first["rank"], first["what"], first["count"]) == (2, "a 4.9 broker loses messages", 250)
    assert "249 can be salvaged" in first["detail"]
    assert first["command"].endswith("salvage --to NEWSTORE")


def test_a_torn_tail_is_mended_by_recovery(copy_of: CopyOf) -> None:
    _, root = copy_of("torn")
    answer = doctor(root)
    assert answer["diagnoses"][0]["command"].endswith("recover")
    assert rmqctl("recover", "--yes", store=root).code == 0
    assert doctor(root)["worst_rank"] == 0


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("damage", "what", "command"),
    [
        (lambda root: shutil.rmtree(root / "index"), "lost-index", "rebuild --index"),
        (lambda root: shutil.rmtree(root / "consumequeue"), "no queues", "rebuild --queues --dry-run"),
        (lambda root: shutil.rmtree(root / "consumequeue/T/1"), "missing-unit", "rebuild --queues"),
        (lambda root: (root / "commitlog/00000000000000016384").unlink(), "missing-segment", "salvage --to NEWSTORE"),
        (lambda root: (root / "checkpoint").unlink(), "checkpoint-invalid", "checkpoint rewrite"),
        (lambda root: (root / "commitlog/notes").touch(), "a 4.9 broker does not start", "recover"),
        (lambda root: (root / "commitlog/notes").write_text("x"), "a 4.9 broker does not start", "simulate"),
        (lambda root: (root / "config/topics.json").write_text("{"), "table is lost", "rebuild topics"),
    ],
)
def test_each_damage_is_named_with_its_command(
    tmp_path: Path, damage: Callable[[Path], None], what: str, command: str
) -> None:
    root = make_store(tmp_path / "store", 300)
    (root / "config").mkdir()
    damage(root)
    before = snapshot(root)
    rows = {row["what"]: row for row in doctor(root)["diagnoses"]}
    assert rows[what]["command"].endswith(command)
    assert rows[what]["cost"]
    ranks = [row["rank"] for row in rows.values()]
    assert ranks == sorted(ranks)
    assert snapshot(root) == before


def test_messages_that_were_deleted_before_a_group_consumed_them_are_a_loss(copy_of: CopyOf) -> None:
    _, root = copy_of("preblank")
    (root / "config").mkdir(exist_ok=True)
    (root / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": {"TopicA@G": {"0": 0}}}))
    assert "deleted unconsumed" in {row["what"] for row in doctor(root)["diagnoses"]}


@pytest.mark.parametrize(("offset", "found"), [(100, []), (101, ["G is at 101 of T/0, whose maximum is 100"])])
@pytest.mark.parametrize("lost_units", [20, 10, 1])
def test_offsets_are_compared_with_the_queues_that_a_start_completes(
    tmp_path: Path, lost_units: int, offset: int, found: list[str]
) -> None:
    root = make_store(tmp_path / "store", 300)
    (root / "abort").touch()
    with (root / "consumequeue/T/0" / f"{1600:020}").open("r+b") as file:
        file.seek(400 - 20 * lost_units)
        file.write(bytes(20 * lost_units))
    (root / "config").mkdir()
    (root / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": {"T@G": {"0": offset}}}))
    rows = [row["detail"] for row in doctor(root)["diagnoses"] if row["what"] == "offset outside of its queue"]
    assert [row.partition(";")[0] for row in rows] == found
    run = rmqctl("--format", "json", "config", "check", store=root)
    assert [row["detail"] for row in run.json["findings"]] == found


@pytest.mark.turns(3)
def test_the_steps_of_a_plan_leave_nothing_that_it_did_not_list(tmp_path: Path) -> None:
    root, _ = unpack("services5", tmp_path)
    with (root / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.write(bytes(700))
    plan = [row["command"] for row in doctor(root)["commands"] if row["can_be_undone"]]
    assert plan == ["truncate-dirty", "rebuild --queues", "rebuild --index", "checkpoint rewrite"]
    for command in plan:
        assert rmqctl(*command.split(), "--yes", store=root).code == 0
    # The topic of this offset has no queue.
    left = "CG_order is at 77 of GoneTopic/3, whose maximum is 0; remove the entry"
    assert [(row["detail"], row["command"]) for row in doctor(root)["diagnoses"]] == [(left, "")]


def test_a_lost_index_loses_no_message(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 300)
    (root / "config").mkdir()
    shutil.rmtree(root / "index")
    assert {row["what"]: row["rank"] for row in doctor(root)["diagnoses"]} == {"lost-index": 3}


def test_index_keys_that_a_start_loses_are_named_with_the_command_that_keeps_them(tmp_path: Path) -> None:
    root, _ = make("crashed", tmp_path)
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    rows = [row for row in doctor(root)["diagnoses"] if row["what"] == "a 4.9 broker loses index keys"]
    assert [(row["rank"], row["count"]) for row in rows] == [(3, start["lost"]["index_keys"])]
    assert rows[0]["command"].endswith("recover --keep-index")
    assert rmqctl("recover", "--keep-index", "--yes", store=root).code == 0
    assert doctor(root)["worst_rank"] == 0


def test_index_keys_of_expired_messages_are_not_lost_at_a_start(tmp_path: Path) -> None:
    root, _ = make("crashed", tmp_path)
    for segment in sorted((root / "commitlog").iterdir())[:2]:
        segment.unlink()
    assert "a 4.9 broker loses index keys" not in {row["what"] for row in doctor(root)["diagnoses"]}


def test_delayed_messages_that_a_start_delivers_at_once_are_named() -> None:
    rows = {row["what"]: row for row in doctor(golden("no-derived").store)["diagnoses"]}
    row = rows["a 4.9 broker delivers delayed messages at once"]
    assert (row["rank"], row["count"], row["command"].split()[-1]) == (3, 20, "recover")


def test_every_line_is_simulated_when_asked(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 300)
    (root / "commitlog/00000000000000000007").touch()
    found = {row["what"] for row in doctor(root, "--compat", "all")["diagnoses"]}
    assert {"a 4.9 broker does not start", "a 5.3 broker does not start"} <= found


class _CountedStarts(Filesystem):
    """Counts the reads of idle queues' pages."""

    pages = 0

    def read_start(self, path: str, size: int) -> bytes:
        self.pages += 1
        return super().read_start(path, size)


def test_each_further_start_takes_the_idle_queues_of_the_first(tmp_path: Path) -> None:
    """Check that a page about 100,000 queues does not read all of them for each version."""
    root = make_store(tmp_path / "store", 30)
    pages = {}
    for beside in ((), ("4.9", "5.3", "5.5")):
        fs = _CountedStarts()
        found = examine(make_layout(root, {}, fs), {}, Clock(), beside=beside, fs=fs)
        pages[len(found.starts)] = fs.pages
    assert pages[1] == pages[3] > 0


def test_beside_an_owner_no_start_is_simulated(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 30)
    (root / "abort").touch()
    with StoreLock(root / "lock", Filesystem()):
        run = rmqctl("--format", "json", "doctor", store=root)
    assert (run.code, run.json["diagnoses"]) == (0, []), run.json
    assert "no start was simulated" in run.err


def test_a_rocksdb_that_is_none_is_named(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 5)
    (root / "consumequeue/CURRENT").write_text("MANIFEST-000001\n")
    (row,) = doctor(root)["diagnoses"]
    assert row["what"] == "rocksdb-state"


def test_offsets_that_a_restore_skipped_are_no_lost_messages(tmp_path: Path) -> None:
    root, backups, new = make_store(tmp_path / "store", 6), tmp_path / "backups", tmp_path / "new"
    assert rmqctl("backup", "create", backups, store=root).code == 0
    assert rmqctl("backup", "restore", backups, "--to", new, "--topic", "T", "--bump", 4).code == 0
    rows = [(one["rank"], one["what"], one["count"], one["detail"]) for one in doctor(new)["diagnoses"]]
    assert rows == [
        (4, "skipped queue offsets", 4, f"placeholders in T/{queue}, the first at queue offset 2") for queue in range(3)
    ]


def test_the_placeholders_of_a_salvaged_store_are_listed_by_queue(copy_of: CopyOf, tmp_path: Path) -> None:
    _, root = copy_of("corrupt-mid")
    assert rmqctl("salvage", "--to", tmp_path / "new", store=root).code == 1
    answer = doctor(tmp_path / "new")
    rows = [(one["rank"], one["what"], one["count"], one["detail"]) for one in answer["diagnoses"]]
    assert rows == [(4, "lost messages", 1, "placeholders in TopicB/3, the first at queue offset 19")]
    (message,) = rmqctl(
        "--format", "json", "get", "TopicB", "--queue", 3, "--offset", 19, "--max", 1, store=tmp_path / "new"
    ).json["messages"]
    assert message["properties"] == {"RMQCTL_LOST": "true"}


UNSEEN = "2 can be salvaged; 5 messages of the log will be in no queue"


# The worst diagnosis: its rank, area and count; the messages that a start would lose, and whether the broker starts.
@pytest.mark.parametrize(
    ("rank", "area", "number", "lost", "intact", "unseen", "starts", "told"),
    [
        (2, "simulate", 3, 3, 2, {}, True, "3 messages would be lost on restart, 2 can be salvaged"),
        (2, "simulate", 3, 3, 2, {("T", 0): 4, ("T", 1): 1}, True, f"3 messages would be lost on restart, {UNSEEN}"),
        (2, "simulate", 1, 1, 0, {}, True, "1 message would be lost on restart, none can be salvaged"),
        (1, "simulate", 3, 3, 2, {}, True, ""),
        (2, "check", 3, 3, 2, {}, True, ""),
        (2, "simulate", 3, 4, 2, {}, True, ""),
        (2, "simulate", 3, 3, 2, {}, False, ""),
        (2, "simulate", 0, 0, 0, {}, True, ""),
    ],
)
def test_a_loss_by_a_restart_is_told_where_it_is_the_worst(
    rank: int, area: str, number: int, lost: int, intact: int, unseen: dict[Any, int], starts: bool, told: str
) -> None:
    worst = SimpleNamespace(rank=rank, area=area, count=number)
    start = SimpleNamespace(starts=starts, lost=SimpleNamespace(messages=lost, intact=intact), unseen=unseen)
    found = SimpleNamespace(diagnoses=[worst], starts=[start])
    assert doctor_command.loss_on_restart(cast(Any, found)) == told
