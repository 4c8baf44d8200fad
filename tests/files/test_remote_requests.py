"""Requests to an object store that is busy, forbids or has nothing: again with growing pauses, or one sentence."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqctl.exit_codes import FINDINGS, IO_ERROR, OK
from store import Message, open_store
from store.errors import StoreIOError
from store.files import remote_requests
from store.files.remote_requests import (
    BLOCK_BYTES,
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    MOST_UNSENT_BYTES,
    RemoteRequests,
)
from tests.cli.running import rmqctl
from tests.support.golden import golden
from tests.support.quickly import one_of
from tests.support.s3 import s3_bucket
from tests.support.stores import SMALL
from tests.support.throttling import Proxy, proxy_before_the_bucket

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


@pytest.fixture(scope="module")
def bucket() -> Iterator[FileSystem]:
    """The buckets `brokers`, with the store `normal`, and `large`, empty."""
    from pyarrow.fs import copy_files

    with s3_bucket("brokers") as files:
        copy_files(str(golden("normal").store), "brokers/normal", destination_filesystem=files)
        files.create_dir("large")
        yield files


@pytest.fixture
def proxy(bucket: FileSystem, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy before the bucket `brokers`; pauses take no time."""
    monkeypatch.setattr(RemoteRequests, "wait", lambda self, seconds: None)
    with proxy_before_the_bucket() as found:
        yield found


SEGMENT = 4 << 20
LOG_BYTES = 5 * SEGMENT + (1 << 16)
FETCHED = {
    "get --log-offset 0": (0.06, 0.06),
    # Without queues and index the records of the whole log tell the place and the keys.
    "get T --queue 1 --offset 3 --max 1": (0.07, 1.0),
    "index-query T k5": (0.45, 1.0),
    "info": (1.0, 0.09),
    # Records may follow zeros, so the newest segment is read to its end.
    "find k5": (1.0, 1.0),
    "recover --normal --dry-run": (1.0, 1.0),
    "doctor": (1.0, 1.0),
    # The newest segment is fetched twice.
    "check": (1.17, 1.17),
}
"""Parts of the log's files that a command fetches at most: of a store with queues and index, and of the log alone."""


@pytest.fixture(scope="module")
def large(bucket: FileSystem, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy before a bucket with a store of six segments, `whole`, and its log alone, `bare`."""
    from pyarrow.fs import copy_files

    root = tmp_path_factory.mktemp("large") / "store"
    settings = {**SMALL, "mappedFileSizeCommitLog": SEGMENT, "mappedFileSizeConsumeQueue": 40000}
    with open_store(root, read_only=False, settings=settings) as store:
        number = 0
        while store.max_log_offset < LOG_BYTES:
            assert store.put(Message.of("T", bytes(30_000), queue_id=number % 4, keys=[f"k{number}"])).is_ok
            number += 1
    copy_files(str(root), "large/whole", destination_filesystem=bucket)
    copy_files(str(root / "commitlog"), "large/bare/commitlog", destination_filesystem=bucket)
    with proxy_before_the_bucket() as found:
        yield found


@pytest.mark.parametrize(("name", "words"), one_of(13, ["whole", "bare"], FETCHED))
def test_a_command_fetches_no_more_of_the_log_than_its_answer_needs(name: str, words: str, large: Proxy) -> None:
    large.fetched.clear()
    run = rmqctl("-q", "--store", f"s3://large/{name}", *words.split())
    says_more = name == "bare" and words in ("info", "find k5", "doctor", "check")
    assert run.code == (FINDINGS if says_more else OK), run.err
    assert 0 < large.bytes_of("commitlog") <= FETCHED[words][name == "bare"] * 6 * SEGMENT


@pytest.mark.slow
@pytest.mark.parametrize("statuses", [(429,) * 3, (503,) * 3, (503, 429, 503), (429, 503, 429)])
def test_a_check_of_a_store_that_throttles_a_third_of_all_requests_finds_what_it_finds_else(
    statuses: tuple[int, ...], proxy: Proxy
) -> None:
    proxy.status_of = lambda number: statuses[number % 10 - 1] if number % 10 in (1, 2, 3) else 0
    run = rmqctl("-f", "json", "--store", "s3://brokers/normal", "check")
    assert (run.code, run.json["findings"]) == (OK, []), run.err
    assert proxy.refused > 0.2 * proxy.count


@pytest.mark.slow
def test_a_store_that_is_busy_for_good_is_one_sentence_with_the_attempts_and_the_option(proxy: Proxy) -> None:
    proxy.status_of = lambda number: 503
    run = rmqctl("-q", "--remote-retries", "1", "--store", "s3://brokers/normal", "check")
    assert (run.code, run.err.count("\n")) == (IO_ERROR, 1), run.err
    assert "s3://brokers/normal" in run.err
    assert "tried 2 times" in run.err
    assert "--remote-retries" in run.err


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        ("s3://nowhere/normal", 0, "no bucket or container is called nowhere; check its name, and the region"),
        (
            "s3://brokers/none",
            0,
            "the bucket is there, and has nothing below none; name the folder that holds commitlog",
        ),
        ("s3://brokers/normal", 403, "no right to look at it: "),
    ],
)
@pytest.mark.parametrize("words", [("check",), ("info",)], ids=" ".join)
def test_no_bucket_no_prefix_and_no_right_are_three_sentences(
    address: str, status: int, says: str, words: tuple[str, ...], proxy: Proxy
) -> None:
    proxy.status_of = lambda number: status
    run = rmqctl("-q", "--store", address, *words)
    assert (run.code, run.err.count("\n")) == (IO_ERROR if status else 4, 1), run.err
    assert run.err.startswith(f"rmqctl: {address}")
    assert (says.replace("look at", "list") if words == ("info",) else says) in run.err, run.err
    assert ("give credentials" in run.err) == (status == 403)


def test_pauses_grow_and_other_errors_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(RemoteRequests, "wait", lambda self, seconds: pauses.append(seconds))
    monkeypatch.setattr(RemoteRequests, "retries", 8)
    for text, expected in {
        "AWS Error SLOW_DOWN during GetObject": [min(FIRST_PAUSE_S * 2**n, LONGEST_PAUSE_S) for n in range(8)],
        "AWS Error UNKNOWN (HTTP status 429)": [min(FIRST_PAUSE_S * 2**n, LONGEST_PAUSE_S) for n in range(8)],
        "AWS Error ACCESS_DENIED during GetObject": [],
        "AWS Error NO_SUCH_KEY (HTTP status 404)": [],
    }.items():
        pauses.clear()
        attempts: list[int] = []

        def fail(text: str = text, attempts: list[int] = attempts) -> None:
            attempts.append(1)
            raise OSError(text)

        with pytest.raises(StoreIOError):
            RemoteRequests("s3://b", None).ask("x", "read", fail)
        assert (pauses, len(attempts)) == (expected, len(expected) + 1)


@pytest.mark.parametrize(
    ("number", "text", "code", "words"),
    [
        (None, "AWS Error SLOW_DOWN. Advice", "busy-remote", "cannot read, tried 1 times: AWS Error SLOW_DOWN"),
        (None, "AWS Error ACCESS_DENIED", None, "no right to read it: AWS Error ACCESS_DENIED"),
        (errno.ETIMEDOUT, "timed out", None, "cannot read: connection timed out"),
        (errno.ENOENT, "SLOW_DOWN", None, "cannot read: no such file or directory"),
    ],
)  # fmt: skip
def test_a_request_that_fails_for_good_says_why(
    number: int | None, text: str, code: str | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RemoteRequests, "retries", 0)

    def fail() -> None:
        raise OSError(number, text) if number is not None else OSError(text)

    with pytest.raises(StoreIOError) as failed:
        RemoteRequests("s3://b", None).ask("x", "read", fail)
    assert (str(failed.value.file), failed.value.reason) == ("s3:/b/x", words)
    assert (failed.value.code == "busy-remote") is (code is not None)


@pytest.mark.parametrize(
    ("reads", "fetched"),
    [
        ([(0, 8)], [(0, BLOCK_BYTES)]),
        ([(0, 8), (8, 8), (BLOCK_BYTES - 1, 1)], [(0, BLOCK_BYTES)]),
        ([(BLOCK_BYTES - 1, 2)], [(0, BLOCK_BYTES), (BLOCK_BYTES, BLOCK_BYTES)]),
        ([(5, BLOCK_BYTES - 1)], [(0, BLOCK_BYTES), (BLOCK_BYTES, BLOCK_BYTES)]),
        ([(5, BLOCK_BYTES)], [(5, BLOCK_BYTES)]),
        ([(3 * BLOCK_BYTES - 4, 8)], [(2 * BLOCK_BYTES, BLOCK_BYTES), (3 * BLOCK_BYTES, BLOCK_BYTES)]),
        ([(4 * BLOCK_BYTES, 8)], [(4 * BLOCK_BYTES, BLOCK_BYTES)]),
        ([(7, 0)], [(0, BLOCK_BYTES)]),
    ],
)
def test_a_few_bytes_are_never_asked_for_alone(
    reads: list[tuple[int, int]], fetched: list[tuple[int, int]], tmp_path: Path
) -> None:
    from pyarrow.fs import LocalFileSystem

    data = bytes(range(256)) * 800
    (tmp_path / "file").write_bytes(data)
    requests = RemoteRequests("s3://b", LocalFileSystem())
    asked, whole = [], requests._fetch

    def noting(path: str, place: str, position: int, size: int | None) -> memoryview:
        asked.append((position, size))
        return whole(path, place, position, size)

    requests._fetch = noting  # type: ignore[method-assign]
    for position, size in reads:
        assert bytes(requests.read("file", str(tmp_path / "file"), position, size)) == data[position : position + size]
    assert asked == fetched


class Stream:
    """Notes what is done to a file system and the stream of a file; `fails` at this part."""

    def __init__(self, fails: int | None = None) -> None:
        self.done: list[str] = []
        self._fails = fails

    def open_output_stream(self, place: str, compression: None) -> Stream:
        self.done.append(f"open {place} {compression}")
        return self

    def write(self, part: bytes) -> None:
        if sum(one.startswith("write") for one in self.done) == self._fails:
            raise OSError("AWS Error ACCESS_DENIED")
        self.done.append(f"write {len(part)}")

    def flush(self) -> None:
        self.done.append("flush")

    def close(self) -> None:
        self.done.append("close")

    def delete_file(self, place: str) -> None:
        self.done.append(f"delete {place}")


HALF = MOST_UNSENT_BYTES // 2


@pytest.mark.parametrize(
    ("sizes", "done"),
    [
        ([], []),
        ([5], ["write 5"]),
        ([HALF, HALF - 1], [f"write {HALF}", f"write {HALF - 1}"]),
        ([HALF, HALF, 1], [f"write {HALF}", f"write {HALF}", "flush", "write 1"]),
        ([HALF] * 4, [*[f"write {HALF}"] * 2, "flush"] * 2),
    ],
)
def test_a_file_is_written_part_by_part_and_what_is_unsent_waits_at_its_limit(
    sizes: list[int], done: list[str]
) -> None:
    stream = Stream()
    RemoteRequests("s3://b", stream).write("x", "b/x", lambda: (memoryview(bytes(HALF))[:size] for size in sizes))
    assert stream.done == ["open b/x None", *done, "close"]


def test_a_file_whose_writing_fails_is_not_left() -> None:
    stream = Stream(fails=1)
    with pytest.raises(StoreIOError, match="no right to write it"):
        RemoteRequests("s3://b", stream).write("x", "b/x", lambda: [b"12", b"3"])
    assert stream.done == ["open b/x None", "write 2", "close", "delete b/x"]


def test_a_file_that_is_written_is_read_anew(tmp_path: Path) -> None:
    from pyarrow.fs import LocalFileSystem

    requests, names = RemoteRequests("s3://b", LocalFileSystem()), ("one", "other")
    for name in names:
        (tmp_path / name).write_bytes(b"before")
        assert bytes(requests.read(name, str(tmp_path / name), 0, 6)) == b"before"
    (tmp_path / "other").write_bytes(b"beyond")
    requests.write("one", str(tmp_path / "one"), lambda: [b"behind"])
    assert [bytes(requests.read(name, str(tmp_path / name), 0, 6)) for name in names] == [b"behind", b"before"]


def test_the_block_that_was_read_longest_ago_is_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_requests, "MOST_BLOCKS", 2)
    requests, asked = RemoteRequests("s3://b", None), []

    def fetch(path: str, place: str, position: int, size: int | None) -> memoryview:
        asked.append(position // BLOCK_BYTES)
        return memoryview(bytes(BLOCK_BYTES))

    requests._fetch = fetch  # type: ignore[method-assign]
    for number in (0, 1, 0, 2, 0, 1):
        requests.read("file", "b/file", number * BLOCK_BYTES, 8)
    assert asked == [0, 1, 2, 1]
