"""Commands that change a store carry its batch queues along, as a broker does."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from store import check, open_store
from tests.cli.running import rmqctl
from tests.support.answers import mismatches
from tests.support.five_stores import asked, copy_of_five, damage, five, lines

BATCH_SIZE = ("--set", "mapperFileSizeBatchConsumeQueue=552")


def changed(root: Path, *words: object) -> None:
    run = rmqctl(*words, store=root)
    assert run.code == 0, run.err


@pytest.mark.parametrize("name", ["bcq", "bcq-aborted"])
def test_a_recovery_leaves_log_and_queues_as_the_broker_leaves_them(name: str, tmp_path: Path) -> None:
    root = copy_of_five(name, tmp_path)
    changed(root, "recover", "--yes")
    expected = json.loads((five(name) / "files-after-load-normal.json").read_text(encoding="utf-8"))
    for file, (size, digest) in expected.items():
        if file.startswith(("commitlog/", "consumequeue/", "batchconsumequeue/")):
            data = (root / file).read_bytes()
            assert (file, len(data), hashlib.sha256(data).hexdigest()) == (file, size, digest)


@pytest.mark.parametrize("lost", ["batchconsumequeue", "batchconsumequeue/BatchA/0/00000000000000002208"])
def test_a_recovery_builds_what_is_lost_of_batch_queues(lost: str, tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    damage(root, {"remove": [lost]})
    changed(root, *BATCH_SIZE, "recover", "--abnormal", "--yes")
    assert list(check(root)) == []
    with open_store(root) as store:
        assert mismatches(store, asked("bcq", "minmax") + asked("bcq", "get")) == []


def test_messages_put_behind_inner_batches_get_the_next_queue_offsets(tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    changed(root, "put", "BatchA", "one", "--queue", 0)
    changed(root, "put", "BatchA", "two", "--queue", 0)
    with open_store(root) as store:
        found = list(store.messages("BatchA", 0, 169))
    assert [(one.queue_offset, one.body) for one in found] == [(169, b"one"), (170, b"two")]
    assert list(check(root)) == []


def test_records_that_a_cut_left_behind_the_end_want_no_units(tmp_path: Path) -> None:
    root = copy_of_five("bcq-aborted", tmp_path)
    changed(root, "recover", "--yes")
    with (root / "commitlog" / f"{65_536:020d}").open("r+b") as segment:
        segment.seek(83_891 - 65_536)
        segment.write(bytes(8))
    changed(root, "recover", "--abnormal", "--yes")
    assert {finding.kind for finding in check(root)} == {"stale-tail"}


def test_a_cut_inside_the_log_takes_the_units_behind_it_along(tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    changed(root, "truncate-dirty", "--offset", 125_920, "--yes")
    assert list(check(root)) == []
    units = next(answer["units"] for request, answer in asked("bcq", "units") if request["topic"] == "BatchA")
    kept = [unit for unit in units if unit[2] < 125_920]
    with open_store(root) as store:
        assert store.max_offset("BatchA", 0) == kept[-1][0] + kept[-1][1] < 169


def test_expired_segments_take_the_files_of_batch_queues_along(tmp_path: Path) -> None:
    root = copy_of_five("bcq", tmp_path)
    changed(root, "clean-expired", "--force", "--reserved-hours", 0, "--yes")
    with open_store(root) as store:
        low, high = store.min_offset("BatchA", 0), store.max_offset("BatchA", 0)
        assert [one.queue_offset for one in store.messages("BatchA", 0, low)] == list(range(low, high))
        assert low > 0
    assert not (root / "batchconsumequeue/BatchA/0/00000000000000000000").exists()
    assert list(check(root)) == []


def test_a_simulated_start_of_a_sound_store_has_no_traps() -> None:
    run = rmqctl("--format", "json", "simulate", store=five("bcq") / "store")
    assert (run.code, run.json["traps"]) == (0, [])


@pytest.mark.parametrize(("command", "code"), [(("simulate",), 1), (("put", "BatchA", "x"), 4), (("doctor",), 1)])
def test_a_folder_of_another_type_than_the_attribute_is_named_with_the_remedy(
    command: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    root = copy_of_five("bcq", tmp_path)
    damage(root, lines("bcq", "damaged.jsonl")[0]["damage"])
    run = rmqctl("--format", "json", *command, store=root)
    assert run.code == code
    assert "its folder holds queues of type BatchCQ" in run.out + run.err
    assert "set the attribute queue.type in topics.json to the type of the folder" in run.out + run.err
