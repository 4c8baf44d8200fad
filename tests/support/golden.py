"""Stores that real brokers wrote (fixtures/), unpacked once per run of the tests, and the brokers' own answers.

    golden("normal").store                the store as its writer left it; copy it before anything may write
    golden("normal").asked("get")         (request, answer) pairs of one kind
    golden("normal").puts()               (input line, answer, stored records) of every put

An archive is unpacked with its modification times to the nanosecond: retention and 4.9.8's search by time look at them.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import errno
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from store.config import StoreConfig
from store.formats.host import Host
from store.formats.message import Message

UNPACKED_AT = "RMQCTL_UNPACKED_ARCHIVES"
"""The variable that names the folder where a run's processes unpack; each has its own without."""
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
MANIFEST: dict[str, dict[str, Any]] = tomllib.loads((FIXTURES / "MANIFEST.toml").read_text(encoding="utf-8"))

ALL = tuple(name for name, entry in MANIFEST.items() if entry["kind"] in ("golden", "store"))
WITH_ANSWERS = tuple(name for name, entry in MANIFEST.items() if entry["kind"] == "golden")
CRASHED = tuple(name for name in WITH_ANSWERS if MANIFEST[name]["crashed"])
CLEAN = tuple(name for name in WITH_ANSWERS if not MANIFEST[name]["crashed"])
BARE = tuple(name for name in ALL if name not in WITH_ANSWERS)


@dataclass(frozen=True)
class Put:
    """One line of input.jsonl: what was handed over, what the broker answered, the records it stored."""

    line: dict[str, Any]
    answer: dict[str, Any]
    records: tuple[bytes, ...]

    @property
    def is_batch(self) -> bool:
        return "messages" in self.line


class Golden:
    """One unpacked archive. Nothing in it may be changed; see `copy_store`."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.entry = MANIFEST[name]
        self.folder = folder

    @property
    def compat(self) -> str:
        return str(self.entry["rocketmq"])[:3]

    @property
    def settings(self) -> dict[str, int]:
        return dict(self.entry["settings"])

    @property
    def config(self) -> StoreConfig:
        return StoreConfig().with_settings(self.settings)

    @property
    def store(self) -> Path:
        return self.folder / "store" if self.entry["kind"] == "golden" else self.folder

    @property
    def store_after_load(self) -> Path:
        return self.folder / "store-after-load"

    @cached_property
    def queue_mtimes_ms(self) -> dict[str, int]:
        return dict(self._json("time-mtimefixed-mtimes.json"))

    @cached_property
    def log(self) -> dict[int, bytes]:
        """The bytes of the commit log's files, by their start."""
        return {int(path.name): path.read_bytes() for path in sorted((self.store / "commitlog").iterdir())}

    def asked(self, kind: str | None = None) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return requests and answers of one kind (minmax, get, time, query, lookup, queues), or of all."""
        pairs = self._pairs("ops-expected.jsonl")
        return [pair for pair in pairs if kind is None or pair[0]["op"] == kind]

    def asked_with_fixed_mtimes(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return self._pairs("time-mtimefixed-expected.jsonl")

    def files(self, stage: str) -> dict[str, tuple[int, str]]:
        """Return (size, SHA-256) by path at a stage.

        stage  pristine, after-load-only, after-load-abort or after-load-normal
        """
        return {path: (size, digest) for path, (size, digest) in self._json(f"files-{stage}.json").items()}

    def loaded(self, stage: str = "load-only") -> dict[str, Any]:
        """Return the broker's report on its state after a load."""
        return dict(self._json(f"{stage}.json"))

    def puts(self) -> Iterator[Put]:
        for line, answer in zip(self._lines("input.jsonl"), self._lines("write.jsonl"), strict=True):
            yield Put(line, answer, self._records(answer["wroteOffset"], answer["msgNum"]))

    def record(self, log_offset: int) -> bytes:
        """Return the bytes of the record at a log offset, by its total size."""
        start, position = divmod(log_offset, self.settings["mappedFileSizeCommitLog"])
        data = self.log[start * self.settings["mappedFileSizeCommitLog"]]
        return data[position : position + int.from_bytes(data[position : position + 4], "big")]

    def _records(self, log_offset: int, count: int) -> tuple[bytes, ...]:
        records: list[bytes] = []
        for _ in range(count):
            records.append(self.record(log_offset))
            log_offset += len(records[-1])
        return tuple(records)

    def _pairs(self, name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return [(line["req"], line["res"]) for line in self._lines(name)]

    def _lines(self, name: str) -> list[dict[str, Any]]:
        text = (self.folder / name).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.split("\n") if line.strip()]

    def _json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text(encoding="utf-8"))


@cache
def golden(name: str) -> Golden:
    """Return the archive, unpacked for the run of the tests."""
    entry = MANIFEST[name]
    return Golden(name, unpacked(FIXTURES / entry["archive"]) / entry["folder"])


@cache
def unpacked(archive: Path) -> Path:
    """Return the folder of an archive's files; worker processes share it, and it must not be changed."""
    folder = _scratch() / f"{archive.parent.name}-{archive.name}"
    if not folder.is_dir():
        own = Path(tempfile.mkdtemp(dir=_scratch()))
        unpack(archive, own / "files")
        # Another worker may have been faster.
        with contextlib.suppress(OSError):
            (own / "files").rename(folder)
        shutil.rmtree(own)
    return folder


def unpack(archive: Path, folder: Path) -> None:
    """Extract with times to the nanosecond: tarfile reads them as floats, exact to microseconds only."""
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
        # Python 3.11.3 and older know no filters, and ignore the attribute.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(folder)
    # Folders come last and innermost first, because putting a file into one changes its time.
    for member in sorted(members, key=lambda member: (not member.isdir(), member.name), reverse=True):
        nanoseconds = int(Decimal(member.pax_headers.get("mtime", str(int(member.mtime)))).scaleb(9))
        os.utime(folder / member.name, ns=(nanoseconds, nanoseconds))


def copy_store(source: Path, target: Path) -> Path:
    """Copy a store, with its modification times and holes, for writing; return the copy."""
    shutil.copytree(source, target, copy_function=_copy_file, dirs_exist_ok=True)
    return target


def _copy_file(source: str, target: str) -> None:
    """Copy the written ranges of a file: an index of DLedger has 160 MiB of holes."""
    with open(source, "rb") as original, open(target, "wb") as copy:  # noqa: PTH123 - twice as fast for small files
        size, stop = os.fstat(original.fileno()).st_size, 0
        copy.truncate(size)
        while (start := _next_data(original.fileno(), stop)) is not None:
            stop = os.lseek(original.fileno(), start, os.SEEK_HOLE)
            os.lseek(copy.fileno(), start, os.SEEK_SET)
            while start < stop:
                start += os.sendfile(copy.fileno(), original.fileno(), start, stop - start)
    shutil.copystat(source, target)


def _next_data(descriptor: int, position: int) -> int | None:
    try:
        return os.lseek(descriptor, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None


def archive_digest(name: str) -> str:
    return hashlib.sha256((FIXTURES / MANIFEST[name]["archive"]).read_bytes()).hexdigest()


def messages_of(put: Put) -> list[Message]:
    """Return the message of a broker's put, with the stored property string: its order is a Java HashMap's.

    A delayed message is handed over for its real topic; the store moves it to the schedule topic.
    """
    line = put.line
    parts = line.get("messages", [line])
    return [
        Message(
            topic=line["topic"],
            body=_body(part),
            queue_id=line["queueId"],
            properties=stored_properties(record),
            flag=part.get("flag", 0),
            sys_flag=line.get("sysFlag", 0),
            born_timestamp_ms=line["bornTimestamp"],
            born_host=Host.parse(line["bornHost"]),
            store_host=Host.parse(line["storeHost"]),
            reconsume_times=line.get("reconsumeTimes", 0),
            prepared_transaction_offset=line.get("preparedTransactionOffset", 0),
        )
        for part, record in zip(parts, put.records, strict=True)
    ]


def stored_properties(record: bytes) -> bytes:
    """Return the property string of a record, found without the decoder under test."""
    sys_flag = int.from_bytes(record[36:40], "big")
    at = 84 + 12 * bool(sys_flag & 0x10) + 12 * bool(sys_flag & 0x20)
    at += 4 + int.from_bytes(record[at : at + 4], "big")
    topic_field = 2 if record[7] == 0xAB else 1
    at += topic_field + int.from_bytes(record[at : at + topic_field], "big")
    return record[at + 2 :]


def _body(part: dict[str, Any]) -> bytes:
    return part["bodyText"].encode() if "bodyText" in part else base64.b64decode(part["body"])


@cache
def _scratch() -> Path:
    if UNPACKED_AT in os.environ:
        return Path(os.environ[UNPACKED_AT])
    folder = Path(tempfile.mkdtemp(prefix="golden-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
