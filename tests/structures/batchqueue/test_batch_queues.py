"""Batch queues: every answer is the broker's, a rebuild gives its bytes, and damage is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from store import check, open_store
from store.files.store_reader import StoredFile, StoreReader
from store.formats.queue_unit import BATCH_UNIT
from store.structures.batchqueue.rows import holds
from tests.support.answers import mismatches
from tests.support.five_stores import asked, copy_of_five, damage, five, lines
from tests.support.snapshots import contents

NAMES = ("bcq", "bcq-aborted")


@pytest.mark.parametrize("kind", ["minmax", "get", "time", "query"])
@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_the_broker(name: str, kind: str) -> None:
    with open_store(five(name) / "store") as store:
        assert mismatches(store, asked(name, kind)) == []


@pytest.mark.parametrize("name", NAMES)
def test_units_are_those_that_the_broker_iterates_over(name: str) -> None:
    with open_store(five(name) / "store") as store:
        for request, expected in asked(name, "units"):
            assert _units(store.opened.queues.find(request["topic"], request["queue"])) == expected["units"]


def _units(queue: object) -> list[list[int]]:
    units, at = [], queue.min_offset
    while at < queue.max_offset:
        if queue.holds_batches:
            found = next(queue.units_from(at))
            units.append([found.queue_offset, found.message_count, found.log_offset, found.size, found.tags_code])
            at = found.next_queue_offset
        else:
            units.append([at, 1, *queue.unit(at)])
            at += 1
    return units


def test_messages_inside_a_record_are_read_one_by_one() -> None:
    puts = [line for line in lines("bcq", "write.jsonl") if line.get("req", {}).get("op") == "innerbatch"]
    put = puts[0]["req"]["msg"]
    first = puts[0]["res"]["logicsOffset"]
    with open_store(five("bcq") / "store") as store:
        found = list(store.messages(put["topic"], put["queueId"], first, max_count=len(put["messages"])))
    assert [message.body.decode() for message in found] == [one["bodyText"] for one in put["messages"]]
    assert [message.queue_offset for message in found] == list(range(first, first + len(found)))
    assert {message.outer_queue_offset for message in found} == {first}


def test_every_queue_offset_of_a_batch_queue_is_read_exactly_once() -> None:
    with open_store(five("bcq") / "store") as store:
        offsets = [message.queue_offset for message in store.messages("BatchA", 0)]
        assert offsets == list(range(store.max_offset("BatchA", 0)))


def test_a_reading_that_stops_inside_a_record_goes_on_behind_its_last_message() -> None:
    with open_store(five("bcq") / "store") as store:
        reader = store.messages("BatchA", 0, 5, max_count=3)
        assert [message.queue_offset for message in reader] == [5, 6, 7]
        assert reader.next_offset == 8


@pytest.mark.parametrize("name", NAMES)
def test_a_sound_store_has_no_findings(name: str) -> None:
    assert list(check(five(name) / "store")) == []


def test_a_rebuild_gives_the_bytes_of_the_broker(tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    damage(root, {"zero": [["batchconsumequeue/BatchA/0/00000000000000000552", 0, 200]]})
    _rmqctl(root, "rebuild", "--queues", "--yes")
    for folder in ("batchconsumequeue", "consumequeue"):
        assert contents(root / folder) == contents(five("bcq") / "store" / folder)


@pytest.mark.parametrize(
    ("case", "kinds"),
    [
        ("queue.type lost from topics.json", {"queue-type"}),
        ("all queues removed", {"missing-unit"}),
        ("batch queues removed", {"missing-unit"}),
        ("last unit of BatchA/0 zero", {"missing-unit"}),
        ("last file of BatchA/0 removed", {"missing-unit"}),
        ("comp and n of the first unit of the last file zero", {"missing-unit", "unit-nowhere"}),
    ],
)
def test_each_damage_that_a_broker_met_is_found(case: str, kinds: set[str], tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    damage(root, next(line["damage"] for line in lines("bcq", "damaged.jsonl") if line["damage"]["name"] == case))
    assert {finding.kind for finding in check(root)} == kinds


@pytest.mark.parametrize(
    ("place", "kind"),
    [(0, "unit-nowhere"), (8, "unit-differs"), (20, "unit-differs"), (28, "queue-gap"), (38, "unit-differs")],
)
def test_a_changed_field_of_a_unit_is_found(place: int, kind: str, tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    damage(root, {"bytes": [["batchconsumequeue/BatchA/0/00000000000000000000", 46 * 3 + place + 1, "01"]]})
    assert kind in {finding.kind for finding in check(root)}


def test_lost_batch_queues_are_read_from_the_log(tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    damage(root, {"remove": ["batchconsumequeue"]})
    with open_store(root, settings={"mapperFileSizeBatchConsumeQueue": 552}) as store:
        assert mismatches(store, asked("bcq", "minmax") + asked("bcq", "get")) == []


@pytest.mark.parametrize(
    ("file", "units", "rest", "is_held"),
    [
        ("T/0/0", [(100, 50, 0, 2), (150, 50, 2, 2)], b"", True),
        ("T/0/0", [(100, 50, 0, 2), (151, 50, 2, 2)], b"", True),
        ("T/0/0", [(100, 50, 0, 2), (149, 50, 2, 2)], b"", False),
        ("T/0/0", [(100, 50, 0, 1), (150, 50, 1, 2)], b"", True),
        ("T/0/0", [(100, 50, 0, 0), (150, 50, 0, 2)], b"", False),
        ("T/0/0", [(100, 50, 0, 2), (150, 50, 3, 2)], b"", False),
        ("T/0/0", [(100, 50, 0, 2)], b"", False),
        ("T/0/0", [(100, 50, 0, 2), (150, 50, 2, 2)], b"1", False),
        ("batchconsumequeue/T/0/0", [(100, 50, 0, 2)], b"1", True),
    ],
)
def test_a_file_is_of_a_batch_queue_by_its_folder_or_by_two_units_that_follow_each_other(
    file: str, units: list[tuple[int, int, int, int]], rest: bytes, is_held: bool, tmp_path: Path
) -> None:
    place = tmp_path / file
    place.parent.mkdir(parents=True)
    place.write_bytes(
        b"".join(BATCH_UNIT.pack(at, size, 0, 0, number, n, 0, 0) for at, size, number, n in units) + rest
    )
    stored = cast(StoredFile, SimpleNamespace(path=file, size=place.stat().st_size))
    assert holds(StoreReader(str(tmp_path)), stored) == is_held


def _rmqctl(root: Path, *words: str) -> str:
    command = [sys.executable, "-m", "rmqctl", "--store", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
