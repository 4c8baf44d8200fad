"""Queues in a RocksDB: every answer is the broker's, and damage is found or passed by."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store import check, open_store
from store.files.filesystem import Filesystem
from store.structures.queuedb.database import open_database
from store.structures.queuedb.keys import decode_offset_key, decode_unit_key, unit_key
from tests.cli.running import rmqctl
from tests.support.five_stores import asked, copy_of_five, five, lines
from tests.support.rocksdb import NAMES, answers_differ, edit, set_checkpoint_back
from tests.support.snapshots import contents

REFUSED = [["recover", "--as-broker", "--dry-run"], ["put", "T", "x"]]
IN_ROCKSDB = ("rocksdb", "rocksdb-aborted")


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_the_broker(name: str) -> None:
    assert answers_differ(name, five(name) / "store") == []


@pytest.mark.parametrize("name", IN_ROCKSDB)
def test_units_are_those_that_the_broker_iterates_over(name: str) -> None:
    with open_store(five(name) / "store") as store:
        for request, expected in asked(name, "units"):
            queue = store.opened.queues.find(request["topic"], request["queue"])
            units = [
                [one.queue_offset, 1, one.log_offset, one.size, one.tags_code]
                for one in queue.units_from(queue.min_offset)
            ]
            assert units == expected["units"]


@pytest.mark.parametrize("name", IN_ROCKSDB)
def test_without_the_binding_the_answers_come_from_the_log(name: str, without_rocksdict: None) -> None:
    assert answers_differ(name, five(name) / "store") == []
    with open_store(five(name) / "store") as store:
        assert store.topics() == ["%LMQ%r1", "%LMQ%r2", "RockA", "RockBatch", "RockBee"]
        assert any("pip install 'rmqctl[rocksdb]'" in note for note in store.notes)


@pytest.mark.parametrize("file", ["MANIFEST-000005", "CURRENT", "000010.sst"])
def test_a_damaged_database_is_passed_by(file: str, tmp_path: Path) -> None:
    root = copy_of_five("rocksdb", tmp_path)
    (root / "consumequeue" / file).write_bytes(b"damage")
    assert answers_differ("rocksdb", root) == []
    assert {finding.kind for finding in check(root)} == {"rocksdb-state"}


def test_every_key_is_read_as_the_broker_wrote_it(tmp_path: Path) -> None:
    database = open_database(five("rocksdb") / "store/consumequeue", tmp_path, Filesystem())
    written = [
        (bytes.fromhex(one["key"]), bytes.fromhex(one["value"]))
        for one in lines("rocksdb", "rocksdb-keys.jsonl")
        if one["cf"] == "default"
    ]
    assert list(database.entries()) == written
    for key, _ in written:
        found = decode_unit_key(key)
        assert found is not None
        assert unit_key(*found) == key


@pytest.mark.parametrize("key", [b"", b"\0\0\0\1", b"\0\0\0\1\1T\2\0\0\0\0\1" + bytes(8), b"\0\0\1\0\1T\1" + bytes(13)])
def test_a_malformed_key_is_none(key: bytes) -> None:
    assert decode_unit_key(key) is None
    assert decode_offset_key(key) is None


def test_reading_on_passes_a_hole_at_which_a_broker_begins_anew() -> None:
    with open_store(five("rocksdb-aborted") / "store") as store:
        assert [message.queue_offset for message in store.messages("%LMQ%r1", 0)] == [2, 4, 9, 10, 11, 22, 23]
        offsets = [message.queue_offset for message in store.messages("RockBatch", 0)]
        assert offsets == list(range(12, 73))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_store_is_touched(name: str, tmp_path: Path) -> None:
    root = copy_of_five(name, tmp_path)
    before = contents(root)
    assert rmqctl("check", store=root).code == 0
    assert rmqctl("get", "RockA", store=root).code == 0
    assert contents(root) == before


@pytest.mark.parametrize("name", NAMES)
def test_a_sound_store_has_no_findings(name: str) -> None:
    assert list(check(five(name) / "store")) == []


def _lose(units: Any, offsets: Any) -> None:
    del units[unit_key("RockA", 0, 5)]


def _alter(units: Any, offsets: Any) -> None:
    value = bytearray(units[unit_key("RockA", 0, 5)])
    value[11] ^= 1
    units[unit_key("RockA", 0, 5)] = bytes(value)


def _invent(units: Any, offsets: Any) -> None:
    units[unit_key("RockBatch", 0, 1)] = units[unit_key("RockA", 0, 5)]


def _malform(units: Any, offsets: Any) -> None:
    units[b"no key"] = b"no value"


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (_lose, {"missing-unit"}),
        (_alter, {"unit-differs"}),
        (set_checkpoint_back, {"rocksdb-state"}),
        (_malform, {"rocksdb-state"}),
    ],
)
@pytest.mark.parametrize("name", ["rocksdb", "rocksdb-double"])
def test_damage_is_found(name: str, change: Callable[[Any, Any], None], kinds: set[str], tmp_path: Path) -> None:
    root = copy_of_five(name, tmp_path)
    edit(root, change)
    assert {finding.kind for finding in check(root)} == kinds


def test_a_unit_where_the_log_has_no_message_is_found(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb", tmp_path)
    edit(root, _invent)
    assert [(one.kind, one.topic, one.offset) for one in check(root)] == [("unit-nowhere", "RockBatch", 1)]


def test_a_queue_that_the_double_write_lost_at_its_end_is_found(tmp_path: Path) -> None:
    root = copy_of_five("rocksdb-double", tmp_path)
    edit(root, lambda units, offsets: units.__delitem__(unit_key("RockA", 0, 21)))
    found = {(one.kind, one.topic, one.offset) for one in check(root)}
    assert found == {("missing-unit", "RockA", 21), ("rocksdb-state", "RockA", 21)}


def test_check_without_the_binding_checks_the_rest_and_says_how_to_install_it(without_rocksdict: None) -> None:
    run = rmqctl("--format", "json", "check", store=five("rocksdb") / "store")
    [found] = run.json["findings"]
    assert (run.code, run.json["checked_bytes"], found["kind"]) == (1, 65536, "rocksdb-state")
    assert "pip install 'rmqctl[rocksdb]'" in found["detail"]


def poison(root: Path, number: int) -> None:
    """Makes a queue offset of the light queues of one message no number."""
    path = root / "commitlog/00000000000000000000"
    data = bytearray(path.read_bytes())
    marks = list(re.finditer(rb"INNER_MULTI_QUEUE_OFFSET\x01[0-9]", data))
    data[marks[number].end() - 1] = ord("x")
    path.write_bytes(data)


@pytest.mark.leaves_damage
@pytest.mark.parametrize(("name", "traps"), [("rocksdb-aborted", ["light-queue-poison-rocksdb"]), ("rocksdb", [])])
def test_poison_of_a_light_queue_stops_dispatch_but_no_start(name: str, traps: list[str], tmp_path: Path) -> None:
    root = copy_of_five(name, tmp_path)
    poison(root, -1)
    [start] = rmqctl("--format", "json", "simulate", store=root).json["outcomes"]
    assert (start["starts"], [one["name"] for one in start["traps"]]) == (True, traps)
    assert all("enableLmq=false" in one["remedy"] for one in start["traps"])
    [found] = [one for one in check(root) if one.kind.startswith("light-queue")]
    assert (found.kind, "enableLmq=false" in found.detail) == ("light-queue-poison-rocksdb", True)
    assert rmqctl("--format", "json", "doctor", store=root).json["worst_rank"] == 2


def test_tables_are_shown_without_the_binding(without_rocksdict: None) -> None:
    assert rmqctl("config", "show", store=five("rocksdb") / "store").code == 0


@pytest.mark.parametrize("words", [["recover", "--abnormal"], ["rebuild", "--queues"]])
@pytest.mark.parametrize("name", NAMES)
def test_without_the_binding_a_change_names_the_store_s_folder(
    name: str, words: list[str], without_rocksdict: None
) -> None:
    root = five(name) / "store"
    run = rmqctl(*words, "--dry-run", store=root)
    assert (run.code, str(root / "consumequeue") in run.err) == (2, True)


@pytest.mark.parametrize("words", REFUSED)
@pytest.mark.parametrize("name", NAMES)
def test_a_change_is_refused(name: str, words: list[str]) -> None:
    run = rmqctl(*words, store=five(name) / "store")
    assert run.code == 4
    assert "not changed otherwise" in run.err
    assert ("rocksdbCQDoubleWriteEnable" in run.err) == (name == "rocksdb-double")
    assert "`rmqctl salvage --to NEWSTORE`" in run.err


def test_a_store_of_files_alone_imports_nothing_of_it(tmp_path: Path) -> None:
    root = five("bcq") / "store"
    seen = "[m for m in sys.modules if 'rocksdict' in m or 'queuedb' in m]"
    code = f"import sys, store; store.open_store({str(root)!r}).topics(); print({seen})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize("name", IN_ROCKSDB)
def test_info_and_doctor_count_the_queues_of_the_database(name: str) -> None:
    loaded = {(q["topic"], q["queueId"]): q["max"] for q in lines(name, "load-only.json")[0]["load"]["queues"]}
    info, doctor = (rmqctl("--format", "json", words, store=five(name) / "store") for words in ("info", "doctor"))
    assert (info.json["queue_count"], info.json["message_count"]) == EXTENTS[name]
    assert doctor.json["message_count"] == EXTENTS[name][1]
    assert info.json["queue_count"] >= len(loaded)


EXTENTS = {"rocksdb": (7, 182), "rocksdb-aborted": (7, 127)}
"""Queues and messages, with those of light queues."""


def test_without_the_binding_info_and_doctor_say_what_they_cannot_read(without_rocksdict: None) -> None:
    root = five("rocksdb") / "store"
    for words in ("info", "doctor", "simulate"):
        run = rmqctl("--format", "json", words, store=root)
        assert (run.code, "pip install 'rmqctl[rocksdb]'" in run.out) == (1, True)
    assert "messages are lost" not in rmqctl("doctor", store=root).out
    assert rmqctl("info", store=root).out.splitlines()[0] == "a 5.3 store, its queues can't be read; 1 problem"
