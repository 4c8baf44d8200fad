"""The salvage command: targets, exit codes, contradicting options."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.running import rmqctl
from tests.conftest import CopyOf
from tests.support.five_stores import five
from tests.support.salvaging import image_of
from tests.support.stores import make_store
from tests.verbs.backup.backups import fingerprint


def test_without_a_target_it_says_what_could_be_saved(copy_of: CopyOf) -> None:
    _, root = copy_of("corrupt-mid")
    found = rmqctl("--format", "json", "salvage", store=root)
    assert (found.code, found.json["saved_records"]) == (1, 500)
    assert {row["grade"]: row["records"] for row in found.json["grades"]} == {"certain": 499, "body-crc": 1}


def test_a_sound_store_is_exit_code_0(copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    assert rmqctl("salvage", store=root).code == 0


def test_json_lines_hold_the_message_object_with_its_grade(copy_of: CopyOf, tmp_path: Path) -> None:
    _, root = copy_of("corrupt-mid")
    rmqctl("salvage", "--to", tmp_path / "a.jsonl", "--grade", "body-crc", store=root)
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert len(rows) == 500
    assert [row["log_offset"] for row in rows if row["grade"] != "certain"] == [
        row["log_offset"] for row in rows if not row["crc_ok"]
    ]


def test_a_parquet_file_has_the_columns_of_the_messages_table(copy_of: CopyOf, tmp_path: Path) -> None:
    _, root = copy_of("corrupt-mid")
    rmqctl("salvage", "--to", tmp_path / "a.parquet", "--grade", "certain", store=root)
    table = pq.read_table(tmp_path / "a.parquet")
    assert (table.num_rows, set(table.column("grade").to_pylist())) == (499, {"certain"})


@pytest.mark.parametrize(("grade", "count"), [("certain", 499), ("body-crc", 500)])
@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_the_records_in_a_file_are_counted(grade: str, count: int, name: str, copy_of: CopyOf, tmp_path: Path) -> None:
    _, root = copy_of("corrupt-mid")
    found = rmqctl("--format", "json", "salvage", "--to", tmp_path / name, "--grade", grade, store=root)
    assert found.json["saved_records"] == count


def test_the_paths_of_a_log_are_of_the_store_and_of_no_other_source(copy_of: CopyOf, tmp_path: Path) -> None:
    root, (_, source) = make_store(tmp_path / "store", 30), copy_of("many")
    own, other = (rmqctl("--format", "json", "salvage", store=one).json["saved_records"] for one in (root, source))
    assert own != other
    (root / "commitlog").rename(tmp_path / "log")
    words = ("--set", f"storePathCommitLog={tmp_path / 'log'}", "--format", "json", "salvage")
    assert rmqctl(*words, store=root).json["saved_records"] == own
    assert rmqctl(*words, source).json["saved_records"] == other
    image_of("many", tmp_path / "image", random.Random(1))
    assert rmqctl(*words, "--raw", tmp_path / "image").json["saved_records"] == other


def test_a_single_segment_and_an_image_are_salvaged(copy_of: CopyOf, tmp_path: Path) -> None:
    _, root = copy_of("many")
    segment = sorted((root / "commitlog").iterdir())[3]
    alone = rmqctl("--format", "json", "salvage", segment)
    assert (alone.code, alone.json["source_files"]) == (0, [segment.name])
    image_of("many", tmp_path / "image", random.Random(1))
    carved = rmqctl("--format", "json", "salvage", "--raw", tmp_path / "image")
    assert carved.json["saved_records"] == rmqctl("--format", "json", "salvage", store=root).json["saved_records"]


def test_a_new_store_is_written_with_a_map(copy_of: CopyOf, tmp_path: Path) -> None:
    _, root = copy_of("corrupt-mid")
    made = rmqctl("--format", "json", "salvage", "--to", tmp_path / "new", "--map", tmp_path / "map.csv", store=root)
    assert (made.json["saved_records"], made.json["placeholder_records"]) == (499, 1)
    assert len((tmp_path / "map.csv").read_text().splitlines()) == 500
    assert rmqctl("check", store=tmp_path / "new").code == 0


@pytest.mark.parametrize(
    "words",
    [("file", "--raw", "image"), ("--keep-offsets",), ("--keep-offsets", "--map", "m", "--to", "new"), ("--map", "m")],
)
def test_contradicting_options_are_a_wrong_use(words: tuple[str, ...], copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    assert rmqctl("salvage", *words, store=root).code == 2


def test_a_source_that_is_not_there_is_not_a_store(tmp_path: Path) -> None:
    assert rmqctl("salvage", tmp_path / "nothing").code == 4


def test_a_folder_without_files_is_a_finding(tmp_path: Path) -> None:
    run = rmqctl("salvage", tmp_path)
    assert (run.code, run.out.splitlines()[0]) == (1, "no file that can hold records was found")


def test_segments_of_an_image_are_carved_below_scratch(copy_of: CopyOf, tmp_path: Path) -> None:
    image = copy_of("normal")[1] / "commitlog/00000000000000000000"
    run = rmqctl("--scratch", tmp_path / "absent", "salvage", "--raw", image)
    assert run.code == 4
    assert str(tmp_path / "absent") in run.err


LOST_IN_MANY = {
    "00000000000000049152": (49152, 65536, "the file is missing"),
    "00000000000000131072": (131072, 132990, "the file is missing"),
}
"""A segment inside the log, and the last one, of which only the queues know how far it went."""


@pytest.mark.parametrize("name", LOST_IN_MANY)
def test_a_missing_segment_is_a_gap(name: str, copy_of: CopyOf) -> None:
    _, root = copy_of("many")
    (root / "commitlog" / name).unlink()
    found = rmqctl("--format", "json", "salvage", store=root)
    start, stop, reason = LOST_IN_MANY[name]
    row = {"file": name, "position": None, "log_offset": start, "size_bytes": stop - start}
    assert (found.code, found.json["gaps"]) == (1, [row | {"reason": reason}])
    assert f"{stop - start:,} bytes lost in 1 gap" in rmqctl("salvage", store=root).out.splitlines()[0]


def test_a_lost_first_segment_may_have_expired(copy_of: CopyOf) -> None:
    _, root = copy_of("many")
    (root / "commitlog/00000000000000000000").unlink()
    found = rmqctl("salvage", store=root)
    assert found.code == 0
    assert (
        "the log begins at 16384; earlier records have expired or are lost; 55 queue entries still point to it"
        in found.err
    )


@pytest.mark.parametrize("inside", ["commitlog/saved.jsonl", "saved", "../store/saved.jsonl"])
def test_a_target_inside_of_the_store_is_refused(copy_of: CopyOf, inside: str) -> None:
    _, root = copy_of("normal")
    before = sorted(root.rglob("*"))
    target = root / inside
    runs = (("salvage", "--to", target), ("stale", "--to", target), ("report", "--html", target))
    assert {rmqctl(*run, store=root).code for run in runs} == {2}
    assert sorted(root.rglob("*")) == before


def test_a_log_whose_gaps_have_no_room_is_compacted(tmp_path: Path) -> None:
    source, reason = five("dledger") / "store", "a gap of 48 bytes is too small for a record"
    kept = rmqctl("--quiet", "salvage", "--to", tmp_path / "kept", "--keep-offsets", store=source)
    rmqctl("salvage", "--to", tmp_path / "new", store=source)
    told = "warning: the log is compacted, and records have other log offsets: "
    (line,) = [one for one in kept.err.splitlines() if told in one]
    assert (kept.code, line.endswith(reason)) == (0, True), kept.err
    made, wanted = (fingerprint(tmp_path / one) for one in ("kept", "new"))
    assert made == wanted
    assert rmqctl("check", store=tmp_path / "kept").code == 0


@pytest.mark.parametrize(("name", "placeholders"), [("bcq", 0), ("dledger", 0), ("lmq", 0), ("rocksdb", 0)])
def test_a_sound_store_with_structures_of_5_3_is_saved_whole(name: str, placeholders: int, tmp_path: Path) -> None:
    run = rmqctl("--format", "json", "salvage", "--to", tmp_path / "new", store=five(name) / "store")
    assert (run.code, [row["grade"] for row in run.json["grades"]]) == (0, ["certain"])
    assert run.json["placeholder_records"] == placeholders
    assert rmqctl("check", store=tmp_path / "new").code == 0


def settings_wanted(root: Path) -> str:
    """The note on a new store's queue files, with the size that they have."""
    (size,) = {path.stat().st_size for path in root.glob("consumequeue/*/*/*")}
    settings = f"storeType=default and mappedFileSizeConsumeQueue={size}"
    return f"the new store has queue files of {size} bytes: start its broker with {settings}"


KEPT_TYPE = (
    "for storeType=defaultRocksDB rebuild its queues with this setting first: a broker that creates the database "
    "itself may leave older messages without entries"
)


@pytest.mark.parametrize(("name", "noted"), [("rocksdb", True), ("lmq", False)])
def test_a_new_store_of_one_with_queues_in_a_database_says_which_settings_it_wants(
    name: str, noted: bool, tmp_path: Path
) -> None:
    store = five(name) / "store"
    saved = rmqctl("salvage", "--to", tmp_path / "saved", store=store)
    rmqctl("backup", "create", tmp_path / "backup", store=store)
    restored = rmqctl("backup", "restore", tmp_path / "backup", "--to", tmp_path / "restored")
    runs = {"saved": saved, "restored": restored}
    assert [settings_wanted(tmp_path / name) in run.err.splitlines() for name, run in runs.items()] == [noted, noted]
    assert [KEPT_TYPE in run.err.splitlines() for run in runs.values()] == [noted, noted]
