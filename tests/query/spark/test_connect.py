"""Spark Connect on loopback: what runs on Spark runs there too, with the same bytes, sentences and exit codes.

The server is not started with this package on its path: the client ships it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.exit_codes import FINDINGS, INTERRUPTED, NOT_READABLE, OK, USAGE
from tests.query.spark.daemons import connect_server
from tests.support.golden import copy_store, golden
from tests.support.processes import Finished, command_line, environment, run, running
from tests.support.snapshots import snapshot
from tests.support.spark_stores import DAMAGES, digests, findings, forget_all_but_the_log, segment, sizes_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COUNT = "select topic, count(*) n from messages group by topic order by topic"
ENDLESS = "select sum(a.size % 7) from messages a, messages b, messages c, messages d"


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_store(golden("normal").store, tmp_path / "store")


def rmqctl(store: Path, remote: str, *words: object) -> Finished:
    return run(command_line(store, "--format", "json", *words, "--remote", remote))


def answer(done: Finished, code: int = OK) -> Any:
    assert done.code == code, done.err
    return json.loads(done.out)


def test_a_query_is_answered(store: Path, remote: str) -> None:
    rows = answer(rmqctl(store, remote, "sql", COUNT))["rows"]
    assert {row["topic"]: row["n"] for row in rows} == {
        "SCHEDULE_TOPIC_XXXX": 20, "TopicA": 160, "TopicB": 160, "topic_C-3": 160
    }  # fmt: skip


def test_a_rebuild_writes_the_brokers_bytes(store: Path, remote: str) -> None:
    answer(rmqctl(store, remote, "rebuild", "--yes"))
    assert digests(store) == digests(golden("normal").store)


def test_a_recovery_gives_what_a_local_one_would(tmp_path: Path, remote: str) -> None:
    source = golden("corrupt-mid").store
    there = copy_store(source, tmp_path / "there")
    here = forget_all_but_the_log(copy_store(source, tmp_path / "here"))
    sizes = [word for name, value in sizes_of(source).items() for word in ("--set", f"{name}={value}")]
    recovered = answer(rmqctl(there, remote, "recover", "--yes"))
    wanted = answer(run(command_line(here, *sizes, "--format", "json", "recover", "--abnormal", "--yes")))
    for fact in ("record_count", "log_end", "lost"):
        assert recovered[fact] == wanted[fact]
    assert digests(there) == digests(here)


def test_an_audit_finds_what_check_finds(store: Path, remote: str) -> None:
    assert answer(rmqctl(store, remote, "audit"))["findings"] == []
    DAMAGES["bad-crc"](store)
    found = answer(rmqctl(store, remote, "audit"), FINDINGS)["findings"]
    assert [(row["kind"], row["file"], row["offset"]) for row in found] == [
        (finding.kind, finding.file, finding.offset) for finding in findings(store)
    ]


def test_messages_are_exported(store: Path, remote: str, tmp_path: Path) -> None:
    words = ("export", "--to", tmp_path / "out", "--as", "jsonl", "--where", "topic = 'TopicA'")
    answer(rmqctl(store, remote, *words))
    lines = [line for path in (tmp_path / "out").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert len(lines) == 160


@pytest.mark.parametrize(
    ("text", "word"),
    [("select topc from messages", "topic"), ("select 1 / 0", "DIVIDE_BY_ZERO")],
)
def test_a_bad_query_is_one_sentence(store: Path, remote: str, text: str, word: str) -> None:
    done = rmqctl(store, remote, "sql", text)
    assert done.code == USAGE
    assert word in done.err.splitlines()[-1]
    assert len(done.err.splitlines()) == 2, "one note and one sentence"


def test_a_link_where_a_segment_is_expected_is_named_and_nothing_is_changed(store: Path, remote: str) -> None:
    before = snapshot(store, without=(".rmqctl", "lock"))
    moved = segment(store, 1).rename(store / "moved")
    (store / "commitlog" / "00000000000000065536").symlink_to(store / "nowhere")
    done = rmqctl(store, remote, "rebuild", "--yes")
    assert done.code == NOT_READABLE
    assert done.err.startswith(f"rmqctl: {store}/commitlog/00000000000000065536: a link, where a segment is expected")
    (store / "commitlog" / "00000000000000065536").unlink()
    moved.rename(store / "commitlog" / "00000000000000065536")
    assert snapshot(store, without=(".rmqctl", "lock")) == before


def test_ctrl_c_ends_a_query_there_too(store: Path, remote: str) -> None:
    words = command_line(store, "sql", ENDLESS, "--remote", remote)
    with running(words, env=environment(), stderr=subprocess.PIPE) as query:
        assert query.stderr is not None
        assert query.stderr.readline().startswith("starting Spark")
        time.sleep(4)
        query.send_signal(signal.SIGINT)
        assert query.wait(120) == INTERRUPTED
        assert query.stderr.read() == "rmqctl: interrupted; the store is consistent\n"
