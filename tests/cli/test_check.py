"""check on the command line: findings as they are found, and an exit code that scripts can ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.hints import HINTS
from store import open_store
from store.structures.findings import BAD_CRC, Finding
from store.verbs.check import check as checking
from tests.cli.running import rmqctl
from tests.support.golden import copy_store, golden


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A store whose first body is bad."""
    root = copy_store(golden("normal").store, tmp_path / "store")
    with sorted((root / "commitlog").iterdir())[0].open("r+b") as file:
        file.seek(88)
        file.write(b"\xff\xfe")
    return root


@pytest.mark.parametrize("is_crashed", [False, True])
def test_a_log_with_damage_is_salvaged_and_recovered_before_it_is_cut(is_crashed: bool, damaged: Path) -> None:
    if is_crashed:
        (damaged / "abort").touch()
    closed = ["salvage --to NEWSTORE", "truncate-dirty"]
    crashed = ["simulate", "salvage --to NEWSTORE", "recover", "truncate-dirty"]
    assert rmqctl("check", store=damaged).steps == (crashed if is_crashed else closed)


def test_a_healthy_store_has_no_findings_and_exit_code_0() -> None:
    run = rmqctl("--format", "json", "check", store=golden("normal").store)
    assert (run.code, run.json["findings"]) == (0, [])
    assert run.json["checked_bytes"] > 0


def test_a_finding_is_a_row_and_exit_code_1(damaged: Path) -> None:
    for form in ("table", "plain", "csv", "jsonl", "json"):
        run = rmqctl("--format", form, "check", store=damaged)
        assert (run.code, BAD_CRC in run.out) == (1, True)


def test_findings_are_counted_and_those_of_several_stores_are_one_list(damaged: Path) -> None:
    one = rmqctl("--format", "json", "check", store=damaged).json
    assert one["finding_count"] == len(one["findings"])
    both = rmqctl("--format", "json", "check", "--store", damaged, "--store", golden("normal").store)
    assert (both.code, [row["kind"] for row in both.json["findings"]]) == (1, [row["kind"] for row in one["findings"]])


def test_an_empty_log_is_noted_beside_findings(damaged: Path, tmp_path: Path) -> None:
    note = "the commit log is empty"
    assert note not in rmqctl("check", store=damaged).err
    root = copy_store(golden("normal").store, tmp_path / "store")
    for segment in (root / "commitlog").iterdir():
        segment.unlink()
    run = rmqctl("check", store=root)
    assert (run.code, note in run.err) == (1, True)


def test_a_finding_is_printed_when_it_is_found(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_and_fail(*_: Any) -> Iterator[Finding]:
        yield Finding(BAD_CRC, "commitlog/0", 0)
        raise OSError(5, "Input/output error", "commitlog/1")

    monkeypatch.setattr(checking, "check_files", find_and_fail)
    run = rmqctl("--format", "jsonl", "check", store=damaged)
    assert [row["kind"] for row in run.rows] == [BAD_CRC]
    assert (run.code, "commitlog/1: input/output error" in run.err) == (5, True)


def test_a_check_that_ran_out_of_time_says_where_to_go_on(damaged: Path) -> None:
    run = rmqctl("check", "--max-seconds", 0, store=damaged)
    assert "continue with --from 0" in run.err
    again = rmqctl("--format", "jsonl", "check", "--from", 0, store=damaged)
    assert [row["kind"] for row in again.rows] == [BAD_CRC]


def test_a_store_is_named_by_its_uri_as_well(damaged: Path) -> None:
    for command in ("check", "usage"):
        by_uri = rmqctl("--format", "jsonl", "--store", damaged.as_uri(), command)
        assert by_uri.rows, by_uri.err
    run = rmqctl("--store", "file:///no/where", "check")
    assert run.err == f"rmqctl: /no/where: no such folder; {HINTS['no-store']}\n"


def test_an_offset_behind_the_log_is_a_bad_request(damaged: Path) -> None:
    for form in ("table", "jsonl", "json"):
        run = rmqctl("--format", form, "check", "--from", 1 << 50, store=damaged)
        assert (run.code, "nothing to check from log offset" in run.err) == (2, True)


def test_a_sample_without_a_segment_is_told() -> None:
    run = rmqctl("check", "--sample", 0, store=golden("normal").store)
    assert (run.code, "no segment was checked: none is in the sample" in run.err) == (0, True)


def test_a_rocksdb_that_is_none_is_a_finding(tmp_path: Path) -> None:
    root = copy_store(golden("normal").store, tmp_path / "store")
    (root / "consumequeue/CURRENT").write_bytes(b"MANIFEST-000001\n")
    run = rmqctl("--format", "json", "check", store=root)
    assert (run.code, [one["kind"] for one in run.json["findings"]]) == (1, ["rocksdb-state"])


def test_settings_say_where_the_log_is_and_how_large_files_are(tmp_path: Path) -> None:
    root = copy_store(golden("normal").store, tmp_path / "store")
    (root / "commitlog").rename(tmp_path / "log")
    conf = tmp_path / "broker.conf"
    conf.write_text(f"storePathCommitLog={tmp_path / 'log'}\n")
    run = rmqctl("--format", "json", "check", "--broker-conf", conf, store=root)
    assert (run.code, run.json["findings"]) == (0, []), run.err
    run = rmqctl(
        "--format", "json", "check", "--broker-conf", conf, "--set", "mappedFileSizeCommitLog=4096", store=root
    )
    assert {finding["kind"] for finding in run.json["findings"]} == {"wrong-size"}


def test_a_check_beside_a_writer_says_so(tmp_path: Path) -> None:
    root = copy_store(golden("normal").store, tmp_path / "store")
    with open_store(root, settings=golden("normal").settings, read_only=False):
        run = rmqctl("check", store=root)
    assert run.code == 0
    assert "holds the store: checked up to log offset" in run.err


def test_one_store_is_checked_alike_before_and_after_the_command(damaged: Path) -> None:
    before = rmqctl("--format", "json", "check", store=damaged)
    after = rmqctl("--format", "json", "check", "--store", damaged, store=damaged.parent)
    assert (after.code, after.json) == (1, before.json)
    assert before.json.keys() >= {"checked_bytes", "stopped_at"}
