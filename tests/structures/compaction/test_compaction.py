"""Compacted topics: the survivors are those of the broker, damage is found, and a run cut short is mended."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from store import Message, check, open_store
from store.files.store_reader import StoredFile, StoreReader
from store.structures.compaction.files import queues_of, read_units, records_of, units_of_log
from tests.cli.running import rmqctl
from tests.support.answers import mismatches
from tests.support.five_stores import asked, copy_of_five, damage, five, lines
from tests.support.golden import copy_store
from tests.support.snapshots import contents

NAMES = ("compaction", "compaction-aborted")
LOG, UNITS = "compaction/compactionLog/Comp_A/0", "compaction/compactionCq/Comp_A/0"
SECOND, LAST = "00000000000000008832", "00000000000000141312"


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", ["get", "minmax", "query", "time"])
@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_the_broker(name: str, kind: str) -> None:
    with open_store(five(name) / "store") as store:
        assert mismatches(store, asked(name, kind)) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_survivors_are_those_that_the_broker_lists(name: str) -> None:
    listed = {(request["topic"], request["queue"]): answer for request, answer in asked(name, "compaction")}
    files = StoreReader(str(five(name) / "store"))
    with open_store(five(name) / "store") as store:
        for found in queues_of(files):
            answer = listed[found.queue]
            records = [
                [message.queue_offset, message.properties.get("KEYS"), message.log_offset, message.size]
                for message in store.messages(*found.queue)
            ]
            assert records == [record[:4] for record in answer["records"]]
            assert [log.number for log, _ in found.pairs] == [part[0] for part in answer["logFiles"]]


@pytest.mark.parametrize("folder", ["store", "store-before"])
@pytest.mark.parametrize("name", NAMES)
def test_units_made_from_the_records_are_those_of_the_broker_byte_by_byte(name: str, folder: str) -> None:
    files = StoreReader(str(five(name) / folder))
    for queue in queues_of(files):
        for log, units in queue.pairs:
            runs, outcome = records_of(files, log)
            assert units_of_log(runs, outcome, units.size) == bytes(files.read(units.path)), units.path
            assert len(read_units(files, units)) == sum(run.count for run in runs)


@pytest.mark.parametrize("folder", ["store", "store-before"])
@pytest.mark.parametrize("name", NAMES)
def test_a_sound_store_has_no_findings(name: str, folder: str) -> None:
    assert list(check(five(name) / folder)) == []


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("case", "kinds"),
    [
        (".delete left (empty file)", {"compaction-leftover"}),
        (".delete left (full length)", {"compaction-files"}),
        ("left-over files in compacting/", {"compaction-leftover"}),
        ("one cq file missing", {"compaction-files"}),
        ("position-checkpoint removed", {"compaction-position"}),
        ("whole compaction removed", {"compaction-uncopied"}),
    ],
)
def test_each_damage_that_a_broker_met_is_found_and_mended(case: str, kinds: set[str], tmp_path: Path) -> None:
    root = copy_of_five("compaction", tmp_path)
    line = next(line for line in lines("compaction", "damaged.jsonl") if line["damage"]["name"] == case)
    damage(root, line["damage"])
    assert {finding.kind for finding in check(root)} == kinds
    assert ("compaction-files" in kinds) == (not line["loadOnly"]["storeLoad"])
    assert rmqctl("compaction", "mend", "--yes", store=root).code == 0
    if case != "whole compaction removed":
        # What was compacted cannot be made from the log.
        assert list(check(root)) == []
        assert _survivors(root) == _survivors(five("compaction") / "store")


def _survivors(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(root / "compaction").items() if "position" not in name}


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    "how",
    [
        {"zero": [[f"{UNITS}/{LAST}", 0, 736]]},
        {"zero": [[f"{UNITS}/{LAST}", 6 * 46, 46]]},
        {"bytes": [[f"{UNITS}/{SECOND}", 41, "00"]]},
        {"bytes": [[f"{UNITS}/{LAST}", 14 * 46, "01"]]},
    ],
)
def test_units_that_do_not_say_what_the_records_say_are_made_from_them(how: dict[str, Any], tmp_path: Path) -> None:
    root = copy_of_five("compaction", tmp_path)
    damage(root, how)
    assert {finding.kind for finding in check(root)} == {"compaction-unit"}
    assert rmqctl("compaction", "mend", "--yes", store=root).code == 0
    assert list(check(root)) == []
    assert _survivors(root) == _survivors(five("compaction") / "store")


@pytest.mark.turns(2)
@pytest.mark.parametrize("path", [f"{UNITS}/{LAST}", f"{LOG}/{LAST}"])
def test_a_cut_file_gets_its_length_and_the_copies_that_it_lost(path: str, tmp_path: Path) -> None:
    root = copy_of_five("compaction", tmp_path)
    os.truncate(root / path, 400)
    assert "compaction-files" in {finding.kind for finding in check(root)}
    assert rmqctl("compaction", "mend", "--yes", store=root).code == 0
    assert list(check(root)) == []
    assert _survivors(root) == _survivors(five("compaction") / "store")


@pytest.mark.turns(4)
@pytest.mark.parametrize(
    ("lost", "assumed"),
    [
        (["compactionCq/CompB/0"], ""),
        (["compactionCq/CompB"], ""),
        (["compactionLog/CompB/0"], ""),
        (["compactionLog/CompB/0", "compactionCq/CompB/0"], ""),
        (["compactionCq/CompB/0/00000000000000000000", "compactionLog/CompB/0/00000000000000061824"], ""),
        (["compactionCq"], "no file of entries is left that says how long they are: 736 bytes are assumed"),
        (["compactionLog"], "no file of records is left that says how long they are: 8832 bytes are assumed"),
    ],
)
def test_one_run_mends_a_queue_or_a_tree_of_lost_files(lost: list[str], assumed: str, tmp_path: Path) -> None:
    root = copy_of_five("compaction", tmp_path)
    for name in lost:
        path = root / "compaction" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    run = rmqctl("compaction", "mend", "--yes", store=root)
    assert (run.code, assumed in run.err) == (0, True)
    assert rmqctl("--format", "json", "doctor", store=root).json["diagnoses"] == []
    sizes = {tree: {path.stat().st_size for path in (root / "compaction" / tree).glob("*/*/*") if path.is_file()}
             for tree in ("compactionLog", "compactionCq")}  # fmt: skip
    assert sizes == {"compactionLog": {8832}, "compactionCq": {736}}
    # The units follow from the records; a copy of all messages has more than a compacted one.
    if not any("Log" in name for name in lost):
        assert _survivors(root) == _survivors(five("compaction") / "store")


@pytest.mark.parametrize("name", ["compaction", "bcq"])
def test_a_table_of_positions_that_is_none_is_mended(name: str, tmp_path: Path) -> None:
    root = copy_of_five(name, tmp_path)
    (root / "compaction/position-checkpoint").write_text("{", encoding="utf-8")
    assert {finding.kind for finding in check(root)} == {"compaction-position"}
    assert rmqctl("compaction", "mend", "--yes", store=root).code == 0
    assert list(check(root)) == []


def test_a_file_that_nothing_replaced_gets_its_name_back(tmp_path: Path) -> None:
    root = copy_of_five("compaction", tmp_path)
    for folder in (LOG, UNITS):
        (root / folder / SECOND).rename(root / folder / f"{SECOND}.delete")
    assert rmqctl("compaction", "mend", "--yes", store=root).code == 0
    assert _survivors(root) == _survivors(five("compaction") / "store")


def test_records_that_the_run_had_not_moved_up_are_moved_up(tmp_path: Path) -> None:
    root = copy_of_five("compaction", tmp_path)
    (root / LOG / "compacting").mkdir(exist_ok=True)
    (root / LOG / SECOND).rename(root / LOG / "compacting" / SECOND)
    assert {finding.kind for finding in check(root)} >= {"compaction-files"}
    assert rmqctl("compaction", "mend", "--yes", store=root).code == 0
    assert list(check(root)) == []
    assert _survivors(root) == _survivors(five("compaction") / "store")


def test_a_mended_compaction_can_be_undone(tmp_path: Path) -> None:
    root = copy_of_five("compaction", tmp_path)
    (root / UNITS / SECOND).unlink()
    before = contents(root / "compaction")
    change = rmqctl("--format", "json", "compaction", "mend", "--yes", store=root).json["change_id"]
    assert rmqctl("undo", change, store=root).code == 0
    assert contents(root / "compaction") == before


@pytest.mark.turns(3)
@pytest.mark.parametrize("count", [10, pytest.param(40, marks=pytest.mark.slow)])
def test_random_damage_is_found_and_breaks_nothing(count: int, tmp_path: Path) -> None:
    root = copy_of_five("compaction", tmp_path)
    choice = random.Random(7)
    written = [(folder, 3000 if folder == LOG else 15 * 46) for folder in (LOG, UNITS)]
    for number in range(count):
        folder, size = written[number % 2]
        path = root / folder / SECOND.replace("8832", "0000")
        at = choice.randrange(size)
        data = bytearray(path.read_bytes())
        path.write_bytes(data[:at] + bytes([data[at] ^ choice.randrange(1, 256)]) + data[at + 1 :])
        kinds = {finding.kind for finding in check(root)}
        with open_store(root) as store:
            list(store.messages("Comp_A", 0))
        path.write_bytes(data)
        assert kinds, (path, at)
    assert list(check(root)) == []


def test_a_compaction_folder_that_is_gone_leaves_the_queues_to_read(tmp_path: Path) -> None:
    root = copy_of_five("compaction", tmp_path)
    shutil.rmtree(root / "compaction")
    with open_store(root) as store:
        assert len(list(store.messages("Comp_A", 0))) == store.max_offset("Comp_A", 0)


@pytest.mark.leaves_damage
def test_a_put_says_that_a_compacted_topic_gets_no_copy(tmp_path: Path) -> None:
    root = copy_of_five("compaction", tmp_path)
    assert "does not feed the compaction log of CompB" in rmqctl("put", "CompB", "x", "--key", "k", store=root).err
    assert "compaction" not in rmqctl("put", "PlainT", "x", store=root).err


@pytest.mark.leaves_damage
def test_a_store_that_takes_puts_is_read_from_its_log(tmp_path: Path) -> None:
    root = copy_of_five("compaction", tmp_path)
    with open_store(root, read_only=False) as store:
        result = store.put(Message.of("Comp_A", "new", queue_id=0))
        store.catch_up()
        found = store.get("Comp_A", 0, result.queue_offset)
    assert [message.body for message in found.messages] == [b"new"]


@pytest.mark.leaves_damage
def test_messages_that_a_put_left_without_a_copy_are_found_after_a_clean_stop(tmp_path: Path) -> None:
    root = copy_of_five("compaction", tmp_path)
    assert rmqctl("put", "CompB", "no key, which is never copied", store=root).code == 0
    assert list(check(root)) == []
    assert rmqctl("put", "CompB", "one", "--key", "k1", store=root).code == 0
    assert rmqctl("put", "CompB", "two", "--key", "k2", store=root).code == 0
    [finding] = check(root)
    assert (finding.kind, finding.topic, finding.count) == ("compaction-uncopied", "CompB", 2)
    assert finding.detail.startswith("2 messages from queue offset 121 on without a copy here")
    (root / "abort").touch()
    assert "compaction-uncopied" not in {one.kind for one in check(root)}
    (root / "abort").unlink()
    assert rmqctl("compaction", "mend", "--yes", store=root).code == 0
    assert list(check(root)) == []
    with open_store(root) as store:
        assert [message.body for message in store.messages("CompB", 0)][-2:] == [b"one", b"two"]


# Messages without a copy: the bytes of the copies are those of the broker.


@pytest.mark.turns(2)
@pytest.mark.parametrize("lost", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_copies_made_anew_are_those_of_the_broker_byte_by_byte(name: str, lost: int, tmp_path: Path) -> None:
    root = copy_store(five(name) / "store-before", tmp_path / "store")
    before = contents(root / "compaction")
    for folder in (LOG, UNITS):
        for file in sorted((root / folder).glob("0*"))[-lost:]:
            file.unlink()
    assert {finding.kind for finding in check(root)} == {"compaction-uncopied"}
    assert rmqctl("compaction", "mend", "--yes", store=root).code == 0
    assert contents(root / "compaction") == before


def test_copies_behind_the_last_one_of_a_file_are_those_of_the_broker_byte_by_byte(tmp_path: Path) -> None:
    root = copy_store(five("compaction") / "store-before", tmp_path / "store")
    before = contents(root / "compaction")
    log, units = (max((root / folder).glob("0*")) for folder in (LOG, UNITS))
    [first, *_] = read_units(StoreReader(str(root)), StoredFile(str(units.relative_to(root)), 0, 0, 0))
    log.write_bytes(log.read_bytes()[: first["size"]].ljust(log.stat().st_size, b"\0"))
    units.write_bytes(units.read_bytes()[:46].ljust(units.stat().st_size, b"\0"))
    assert rmqctl("compaction", "mend", "--yes", store=root).code == 0
    assert contents(root / "compaction") == before


def test_a_queue_without_a_compaction_log_gets_one_of_the_length_of_others(tmp_path: Path) -> None:
    root = copy_store(five("compaction") / "store-before", tmp_path / "store")
    before = contents(root / "compaction")
    for folder in (LOG, UNITS):
        shutil.rmtree(root / folder)
    assert {finding.kind for finding in check(root)} == {"compaction-uncopied"}
    assert rmqctl("compaction", "mend", "--yes", store=root).code == 0
    assert contents(root / "compaction") == before


def test_without_any_file_whose_length_is_known_none_is_made(tmp_path: Path) -> None:
    root = copy_of_five("compaction", tmp_path)
    shutil.rmtree(root / "compaction")
    run = rmqctl("compaction", "mend", "--yes", store=root)
    assert (run.code, "none is left whose files say how long they are" in run.out + run.err) == (0, True)
    assert not (root / "compaction").exists()


def test_a_killed_store_gets_no_copies_for_its_start_makes_them(tmp_path: Path) -> None:
    root = copy_of_five("compaction-aborted", tmp_path)
    for folder in (LOG, UNITS):
        max((root / folder).glob("0*")).unlink()
    before = contents(root / "compaction")
    assert rmqctl("compaction", "mend", "--yes", store=root).code == 0
    assert contents(root / "compaction") == before
