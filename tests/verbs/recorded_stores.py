"""Stores damaged one way each, whose whole reports are recorded (tests/verbs/recorded)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from store import Message, open_store
from tests.support.five_stores import copy_of_five, fivefive
from tests.support.golden import copy_store, golden
from tests.support.stores import SMALL, Clock, text_message

SIZES = {**SMALL, "mappedFileSizeCommitLog": 8192, "maxHashSlotNum": 100, "maxIndexNum": 200}
BLANK = 0xCBD43194
MODIFIED_S = 1_700_000_000
"""What clean-expired takes for the age of each file."""

Damage = Callable[[Path], None]


def make_mixed(root: Path, count: int = 120, **settings: int) -> Path:
    """A store with two topics, delayed messages, and two groups that consumed a part."""
    clock = Clock()
    with open_store(root, settings={**SIZES, **settings}, read_only=False, clock=clock) as store:
        for number in range(count):
            clock.now_ms += 1000
            assert store.put(_message(number)).is_ok
    offsets = {"T@G": {0: 10, 1: 20, 2: 30}, "T@H": {0: 5, 1: 0}, "S@G": {0: 12}}
    _table(root, "consumerOffset", {"offsetTable": offsets, "dataVersion": {"counter": 1, "timestamp": 1}})
    # Their names are the times at which a thread made them.
    for number, path in enumerate(sorted((root / "index").iterdir(), key=_begin)):
        path.rename(path.with_name(f"20231114221400{number:03d}"))
    return root


def _begin(index: Path) -> bytes:
    return index.read_bytes()[16:24]


def _message(number: int) -> Message:
    if number % 10 == 9:
        return text_message(number, "S")
    delay = b"\x02DELAY\x013" if number % 10 == 4 else b""
    message = text_message(number, queue_id=number % 3)
    return Message("T", message.body, message.queue_id, message.properties + delay, born_timestamp_ms=1)


def _table(root: Path, name: str, table: object) -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / f"{name}.json").write_text(json.dumps(table), encoding="utf-8")


def segments(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def records(root: Path) -> list[tuple[Path, int, int]]:
    """File, position and size of each record."""
    found = []
    for path in segments(root):
        data, at = path.read_bytes(), 0
        while at + 8 <= len(data) and (size := int.from_bytes(data[at : at + 4], "big")):
            if int.from_bytes(data[at + 4 : at + 8], "big") == BLANK:
                break
            found.append((path, at, size))
            at += size
    return found


def write(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def in_record(number: int, at: int, data: bytes) -> Damage:
    """Overwrites bytes of a record; a negative place counts from its end."""

    def damage(root: Path) -> None:
        path, position, size = records(root)[number]
        write(path, position + at % size, data)

    return damage


def in_file(pattern: str, at: int, data: bytes, number: int = 0) -> Damage:
    return lambda root: write(sorted(root.glob(pattern))[number], at, data)


def zero(pattern: str, number: int = 0) -> Damage:
    def damage(root: Path) -> None:
        path = sorted(root.glob(pattern))[number]
        write(path, 0, bytes(path.stat().st_size))

    return damage


def remove(pattern: str, number: int = 0) -> Damage:
    def damage(root: Path) -> None:
        path = sorted(root.glob(pattern))[number]
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


def cut(pattern: str, size: int, number: int = 0) -> Damage:
    return lambda root: os.truncate(sorted(root.glob(pattern))[number], size)


def late_checkpoint(root: Path) -> None:
    write(root / "checkpoint", 0, (1_800_000_000_000).to_bytes(8, "big") * 3)


def units_behind(count: int) -> Damage:
    """Zeroes the last units of queue 0."""

    def damage(root: Path) -> None:
        path = [file for file in sorted((root / "consumequeue/T/0").iterdir()) if any(file.read_bytes())][-1]
        used = max(at for at in range(0, 400, 20) if any(path.read_bytes()[at : at + 20])) + 20
        write(path, max(0, used - 20 * count), bytes(min(used, 20 * count)))

    return damage


def unit_ahead(root: Path) -> None:
    path = max((root / "consumequeue/T/1").iterdir())
    write(path, 380, (1 << 20).to_bytes(8, "big") + (190).to_bytes(4, "big") + bytes(8))


def swapped_units(root: Path) -> None:
    path = min((root / "consumequeue/T/0").iterdir())
    data = path.read_bytes()
    write(path, 40, data[60:80] + data[40:60])


def offsets_beyond(root: Path) -> None:
    _table(root, "consumerOffset", {"offsetTable": {"T@G": {0: 1000, 1: 37, 9: 1}, "T@H": {0: 1 << 62}, "U@G": {0: 3}}})


def quarantined(root: Path) -> None:
    folder = root / ".rmqctl/quarantine/20240101T000000.000-recover/commitlog"
    folder.mkdir(parents=True)
    (folder / f"{1 << 20:020d}").write_bytes(b"left")


def unknown_name(root: Path) -> None:
    (root / "strange").mkdir()
    (root / "strange/0").write_bytes(b"0")


def both(*damages: Damage) -> Damage:
    def damage(root: Path) -> None:
        for one in damages:
            one(root)

    return damage


def crashed(root: Path) -> None:
    (root / "abort").touch()


def as_it_is(root: Path) -> None:
    """Changes nothing."""


T0 = "consumequeue/T/0/*"
DAMAGES: dict[str, Damage] = {
    "sound": as_it_is,
    "crashed": crashed,
    "torn-tail": both(crashed, in_record(-1, -40, bytes(40))),
    "torn-head": both(crashed, in_record(-1, 0, bytes(30))),
    "crc-middle": in_record(60, 100, b"\xff"),
    "crc-middle-crashed": both(crashed, remove("checkpoint"), in_record(60, 100, b"\xff")),
    "crc-two": both(crashed, in_record(20, 100, b"\xff"), in_record(90, 100, b"\xff"), remove("checkpoint")),
    "magic-middle": both(crashed, remove("checkpoint"), in_record(60, 4, b"\0\0\0\1")),
    "size-middle": in_record(61, 0, b"\0\0\1\0"),
    "zeroed-stretch": both(crashed, in_record(100, 0, bytes(600))),
    "zeroed-segment": both(crashed, zero("commitlog/*", 1)),
    "missing-segment": remove("commitlog/*", 1),
    "short-segment": both(crashed, cut("commitlog/*", 5000, -1)),
    "empty-segment": both(crashed, cut("commitlog/*", 0, -1)),
    "expired-front": remove("commitlog/*", 0),
    "no-log": remove("commitlog"),
    "other-log-offset": in_record(70, 28, b"\0\0\0\1"),
    "other-queue-offset": in_record(71, 20, (900).to_bytes(8, "big")),
    "time-backwards": in_record(72, 56, (1_600_000_000_000).to_bytes(8, "big")),
    "queue-zeroed-first": zero(T0, 0),
    "queue-zeroed-last": zero(T0, -1),
    "queue-missing-first": remove(T0, 0),
    "queue-missing-last": both(crashed, remove(T0, -1)),
    "queue-missing": remove("consumequeue/T/1"),
    "queues-missing": both(crashed, remove("consumequeue")),
    "queue-odd-size": cut(T0, 407, -1),
    "queue-empty-file": cut(T0, 0, -1),
    "queue-behind-1": units_behind(1),
    "queue-behind-12": both(crashed, units_behind(12)),
    "queue-ahead": unit_ahead,
    "units-swapped": swapped_units,
    "unit-size": in_file(T0, 108, (7).to_bytes(4, "big")),
    "tags-code": both(in_file(T0, 112, b"\1\2\3\4"), in_file(T0, 132, b"\1\2\3\4")),
    "checkpoint-missing": remove("checkpoint"),
    "checkpoint-zeroed": both(crashed, zero("checkpoint")),
    "checkpoint-late": both(crashed, late_checkpoint),
    "checkpoint-short": cut("checkpoint", 20),
    "index-header": in_file("index/*", 8, b"\1"),
    "index-entry": in_file("index/*", 40 + 400 + 20 * 5 + 4, b"\0\0\0\0\0\1\0\0"),
    "index-slot": in_file("index/*", 40 + 4 * 10, bytes(40)),
    "index-missing-first": remove("index/*", 0),
    "index-missing-last": both(crashed, remove("index/*", -1)),
    "index-missing": remove("index"),
    "index-empty-file": cut("index/*", 0, -1),
    "offsets-beyond": offsets_beyond,
    "offsets-beyond-torn": both(offsets_beyond, crashed, in_record(100, 100, b"\xff")),
    "quarantined": quarantined,
    "unknown-name": unknown_name,
}
FIVE = ("bcq-aborted", "compaction-aborted", "lmq", "lmq-poison1", "rocksdb-double", "timer-aborted")
FIVE_FIVE = ("index-killed", "combine")
GOLDEN = ("preblank", "crash-async-checkpoint0")
NAMES = (*DAMAGES, "segments-13", "segments-13-damaged", *(f"golden-{name}" for name in GOLDEN))
NAMES += (*(f"five-{name}" for name in FIVE), *(f"fivefive-{name}" for name in FIVE_FIVE))


def make(name: str, folder: Path) -> tuple[Path, dict[str, int]]:
    """The store of a name below the folder, and its settings; all its files have one time."""
    root, settings = _make(name, folder)
    for path in [root, *root.rglob("*")]:
        os.utime(path, (MODIFIED_S, MODIFIED_S))
    return root, settings


def _make(name: str, folder: Path) -> tuple[Path, dict[str, int]]:
    origin, _, rest = name.partition("-")
    if origin == "golden":
        return copy_store(golden(rest).store, folder / "store"), golden(rest).settings
    if origin == "five":
        return copy_of_five(rest, folder), {}
    if origin == "fivefive":
        return copy_store(fivefive(rest) / "store", folder / "store"), {}
    if origin == "segments":
        settings = {**SIZES, "mappedFileSizeCommitLog": 2048}
        root = make_mixed(folder / "store", **settings)
        if "damaged" in name:
            both(crashed, remove("checkpoint"), *(in_record(at, 100, b"\xff") for at in range(5, 120, 9)))(root)
        return root, settings
    root = make_mixed(folder / "store")
    DAMAGES[name](root)
    return root, SIZES
