"""One segment file, without a store around it, is a log that the reading commands take."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from store import find
from tests.cli.running import rmqctl
from tests.support.stores import make_store

NAMED = "00000000000000016384"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("segment") / "store", 150)


@pytest.fixture(params=[NAMED, "renamed.bin", "00000000000000000000"])
def segment(request: pytest.FixtureRequest, root: Path, tmp_path: Path) -> Path:
    """The second segment alone: with its name, without one, and with that of another."""
    copy = tmp_path / request.param
    copy.write_bytes((root / "commitlog" / NAMED).read_bytes())
    return copy


def records_of(root: Path) -> list[dict[str, object]]:
    rows = rmqctl("--format", "jsonl", "dump", "commitlog", store=root).rows
    return [row for row in rows if row["kind"] == "record"]


def test_its_records_are_those_of_the_store(segment: Path, root: Path) -> None:
    expected = [row["log_offset"] for row in records_of(root) if 16384 <= row["log_offset"] < 32768]
    assert [row["log_offset"] for row in records_of(segment)] == expected
    run = rmqctl("--format", "json", "timeline", store=segment)
    assert (run.code, run.json["message_count"]) == (0, len(expected))


@pytest.mark.parametrize(
    "asked", ["k{}", "U{}", "message {} ", "--body=message {} ", "--where=array_contains(keys, 'k{}')"]
)
def test_a_message_in_it_is_found_without_queues_and_index(asked: str, segment: Path, root: Path) -> None:
    wanted = next(row for row in records_of(root) if row["log_offset"] > 16384)
    number = int(str(wanted["uniq_key"]).removeprefix("U"))
    run = rmqctl("--format", "json", "find", asked.format(number), store=segment)
    assert (run.code, run.json["messages"][0]["log_offset"]) == (0, wanted["log_offset"])
    assert {place["place"] for place in run.json["places"]} == {"record"}


def test_its_fingerprint_is_verified_against_that_of_the_store(segment: Path, root: Path, tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    before.write_text(rmqctl("--format", "json", "fingerprint", store=root).out)
    assert rmqctl("fingerprint", "--verify", before, store=segment).code == 0
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    run = rmqctl("--format", "json", "fingerprint", "--verify", before, store=segment)
    assert (run.code, [row["name"] for row in run.json["differences"]]) == (1, [NAMED])


def test_check_says_nothing_of_the_files_around_it(segment: Path) -> None:
    assert rmqctl("check", store=segment).code == 0
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    found = rmqctl("--format", "json", "check", store=segment).json["findings"]
    assert [row["kind"] for row in found] == ["bad-crc"]


def test_the_library_finds_in_it(segment: Path) -> None:
    assert [one.log_offset >= 16384 for one in find(segment, "all", most=2)] == [True, True]


def test_sql_and_usage_read_it(segment: Path) -> None:
    rows = rmqctl("--format", "json", "sql", "select count(*) as n from messages", store=segment).json["rows"]
    usage = rmqctl("--format", "json", "usage", store=segment).json
    assert rows == [{"n": usage["message_count"]}] != [{"n": 0}]


def test_a_file_that_tells_no_log_offset_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"no": "segment"}))
    run = rmqctl("timeline", store=other)
    assert (run.code, run.out) == (4, "")
    assert "neither its records nor its name give a log offset" in run.err


@pytest.mark.parametrize("command", ["stale", "lag", "simulate", "doctor", "info"])
def test_a_command_that_needs_the_whole_store_says_so(command: str, segment: Path) -> None:
    run = rmqctl(command, store=segment)
    assert (run.code, "folder" in run.err) == (4, True)


REFUSED = ("info", "doctor", "simulate", "recover --dry-run", "stale", "lag", "config check", "report --html page.html")
TAKEN = ("check", "dump commitlog", "find k1", "fingerprint", "salvage", "timeline", "usage")


@pytest.mark.parametrize("line", REFUSED)
def test_a_command_that_needs_the_store_names_those_that_take_one_file(line: str, segment: Path) -> None:
    run = rmqctl(*line.split(), store=segment)
    assert run.code == 4
    assert [name for name in (line.split()[0] for line in TAKEN) if name not in run.err] == []


@pytest.mark.parametrize("line", TAKEN)
def test_each_command_that_is_named_takes_one_file(line: str, segment: Path) -> None:
    assert rmqctl(*line.split(), store=segment).code == 0


@pytest.mark.parametrize("line", ["usage", "check", "sql 'select 1'", "export --to out.jsonl"])
def test_spark_is_not_started_for_one_file(line: str, segment: Path) -> None:
    run = rmqctl(*shlex.split(line), "--engine", "spark", store=segment)
    assert (run.code, run.err) == (
        2,
        f"rmqctl: {segment}: one segment file is not read on Spark; give --engine local\n",
    )
