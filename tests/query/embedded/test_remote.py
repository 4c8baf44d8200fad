"""Stores in an object store: read by ranges through S3's own protocol, never changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.exit_codes import OK, USAGE
from store.errors import StoreIOError
from store.files import Filesystem
from store.files.store_reader import StoreReader
from store.opened.reach import reach_store
from tests.cli.running import Run, rmqctl
from tests.support.golden import golden
from tests.support.quickly import one_of
from tests.support.s3 import s3_bucket

BUCKET = "brokers"
COUNT = "select topic, queue_id, count(*) n, sum(size) s from messages group by all order by all"


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The URI of a bucket with the store `normal` in it."""
    from pyarrow.fs import copy_files

    with s3_bucket(BUCKET) as files:
        copy_files(str(golden("normal").store), f"{BUCKET}/normal", destination_filesystem=files)
        files.create_dir(f"{BUCKET}/normal/commitlog")
        yield f"s3://{BUCKET}/normal"


@pytest.mark.turns(4)
def test_a_remote_store_answers_as_a_local_one(bucket: str) -> None:
    def answers(*words: object) -> tuple[Run, Run]:
        return rmqctl("--format", "jsonl", *words, store=golden("normal").store), rmqctl(
            "--format", "jsonl", "--store", bucket, *words
        )

    for words in (("sql", COUNT), ("usage", "--by", "queue"), ("check",), ("audit",)):
        local, remote = answers(*words)
        assert (remote.code, remote.rows) == (local.code, local.rows), remote.err


READING = [
    ("get", "TopicA", "--queue", "0", "--offset", "0", "--max", "50"),
    ("get", "--log-offset", "0"),
    ("get", "TopicA", "--since", "2000-01-01"),
    ("index-query", "TopicA", "order5"),
    ("checkpoint", "show"),
    ("recover", "--normal", "--dry-run"),
    ("lag",),
    ("find", "order5"),
    ("find", "--where", "topic = 'TopicA' and queue_id = 1"),
    ("timeline",),
    ("fingerprint",),
    ("delay", "show"),
    ("transaction", "show"),
    ("dump", "commitlog"),
    ("dump", "consumequeue", "TopicA/0"),
    ("stale",),
    ("config", "check"),
    ("config", "show"),
    ("config", "settings"),
    ("quarantine", "list"),
    ("rebuild", "--dry-run"),
    ("truncate-dirty", "--dry-run"),
    ("checkpoint", "rewrite", "--dry-run"),
    ("timer", "show"),
]


@pytest.mark.parametrize("words", one_of(13, READING), ids=" ".join)
def test_a_reading_command_answers_from_a_remote_store_as_from_a_folder(bucket: str, words: tuple[str, ...]) -> None:
    local = rmqctl("--format", "json", *words, store=golden("normal").store)
    remote = rmqctl("--format", "json", "--store", bucket, *words)
    assert (local.code, remote.code) == (OK, OK), remote.err
    assert _without_place(remote.out) == _without_place(local.out)


@pytest.mark.turns(3)
@pytest.mark.parametrize("words", [("simulate",), ("salvage",), ("doctor",)], ids=" ".join)
def test_a_forensic_command_reads_a_remote_store(bucket: str, words: tuple[str, ...]) -> None:
    remote = rmqctl("--format", "json", "--store", bucket, *words)
    assert remote.code == OK, remote.err


@pytest.mark.turns(3)
def test_a_report_of_a_remote_store_names_its_address(bucket: str, tmp_path: Path) -> None:
    run = rmqctl("--store", bucket, "report", "--html", tmp_path / "page.html")
    assert run.code == OK, run.err
    assert f"4.9 store {bucket}" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.turns(3)
def test_info_of_a_remote_store_has_a_command_to_go_on_with_and_no_local_disk(bucket: str) -> None:
    run = rmqctl("--format", "json", "--store", bucket, "info")
    assert run.json["next_command"].startswith(f"rmqctl --store {bucket} ")
    assert (run.json["free_bytes"], run.json["disk_used_percent"]) == (None, None)
    again = rmqctl(*run.json["next_command"].split()[1:])
    assert again.code == OK, again.err


def test_raw_records_of_a_remote_store_are_those_of_the_folder(bucket: str) -> None:
    words = ("get", "TopicA", "--queue", "1", "--offset", "0", "--max", "9", "--raw")
    local, remote = rmqctl(*words, store=golden("normal").store), rmqctl("--store", bucket, *words)
    assert remote.data == local.data != b""


def test_nothing_is_followed_at_a_uri(bucket: str) -> None:
    run = rmqctl("--store", bucket, "get", "TopicA", "--queue", "0", "--offset", "0", "--follow")
    assert (run.code, "--follow needs a store in a folder" in run.err) == (USAGE, True)


@pytest.mark.turns(3)
def test_stores_here_and_there_are_compared(bucket: str) -> None:
    run = rmqctl("--format", "json", "diff", bucket, golden("normal").store)
    assert (run.code, run.json["equal"]) == (OK, True), run.err


def test_of_a_remote_store_only_what_a_reader_asks_for_is_fetched(bucket: str, tmp_path: Path) -> None:
    root, fs = reach_store(bucket, scratch=tmp_path)
    path = root / "commitlog" / f"{0:020d}"
    assert (path.stat().st_size, path.stat().st_blocks) == (65536, 0)
    assert fs.read(fs.open_read(path), 0, 8) == (golden("normal").store / "commitlog" / path.name).read_bytes()[:8]
    assert path.stat().st_blocks > 0
    assert {file.stat().st_blocks for file in root.glob("consumequeue/*/*/*")} == {0}
    del fs
    assert not root.exists()


def _without_place(text: str) -> str:
    """The document without what names the store's place or the moment."""
    known = re.sub(r'"[^"]*/(commitlog|consumequeue|index|config)', r'"\1', text)
    return re.sub(r'"index/\d{17}"', '"index/new"', known)


def test_a_remote_store_is_exported(bucket: str, tmp_path: Path) -> None:
    for name, store in (("remote", bucket), ("local", str(golden("normal").store))):
        words = ("export", "--to", tmp_path / name, "--as", "jsonl")
        assert rmqctl("--store", store, *words).code == OK
    texts = [sorted(min((tmp_path / name).glob("*.jsonl")).read_text().splitlines()) for name in ("remote", "local")]
    assert texts[0] == texts[1]


def test_a_fleet_may_lie_here_and_there(bucket: str) -> None:
    words = ("--store", bucket, "--store", str(golden("batch").store))
    run = rmqctl("--format", "jsonl", "sql", "select store, count(*) n from messages group by 1 order by 2", *words)
    assert [row["n"] for row in run.rows] == [496, 500]


@pytest.mark.parametrize(
    "words",
    [
        *((name, "--yes") for name in ("recover", "truncate-dirty", "rebuild", "clean-expired")),
        ("recover",),
        ("undo", "x"),
        ("put", "T", "x"),
        ("quarantine purge", "--yes"),
        ("config rebuild-topics", "--yes"),
        ("checkpoint rewrite", "--yes"),
        ("serve",),
        ("flush-bench",),
        ("stats",),
    ],
    ids=lambda words: words[0],
)
def test_a_command_that_changes_a_store_refuses_a_remote_one_by_name(bucket: str, words: tuple[str, ...]) -> None:
    run = rmqctl("--store", bucket, *words[0].split(), *words[1:])
    assert (run.code, bucket in run.err) == (USAGE, True), run.err
    assert "folder of this machine" in run.err


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("hdfs://nowhere/store", "JAVA_HOME"),
        ("abfs://x/y", "name the account"),
        ("http://a/b", "http"),
    ],
)
@pytest.mark.parametrize("words", [("info",), ("get", "T"), ("sql", "select 1")], ids=" ".join)
def test_an_address_that_cannot_be_reached_is_one_sentence(address: str, says: str, words: tuple[str, ...]) -> None:
    run = rmqctl("--quiet", "--store", address, *words)
    assert (run.code, run.out, run.err.count("\n")) == (4, "", 1), run.err
    assert address in run.err
    assert says in run.err


@pytest.mark.slow
def test_googles_storage_is_not_tried_for_a_quarter_of_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow.fs import GcsFileSystem

    from store.files import places

    monkeypatch.setattr(places, "GS_LIMIT_S", 1)
    place = places.connect_folder("gs://anonymous@bucket/store", Filesystem())
    assert isinstance(place, places.RemotePlace)
    assert isinstance(place._fs, GcsFileSystem)
    with pytest.raises(StoreIOError, match="gs://anonymous@bucket/store"):
        place.look_at("commitlog")


def test_a_bucket_without_a_store_is_named(bucket: str) -> None:
    run = rmqctl("--store", f"s3://{BUCKET}/none", "sql", COUNT)
    assert (run.code, f"s3://{BUCKET}/none" in run.err) == (4, True)


def test_only_the_segment_that_a_filter_leaves_is_fetched(bucket: str, monkeypatch: Any) -> None:
    fetched: list[str] = []
    whole = StoreReader.map

    def noting(self: StoreReader, path: str, *place: Any) -> Any:
        fetched.append(path)
        return whole(self, path, *place)

    monkeypatch.setattr(StoreReader, "map", noting)
    rmqctl("--store", bucket, "sql", "select count(*) from messages where log_offset >= 131072")
    assert set(fetched) == {f"commitlog/{131072:020d}"}
