"""Damage to a store, chosen at random from a seed: what disks, crashes and hands do to logs, queues, index, checkpoint.

damage(root, random.Random(seed))      one to three of KINDS, done in place; gives the names of what was done
MORE_KINDS                             with more damage to queues, and with segments that are missing
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

Kind = Callable[[Path, random.Random], bool]
"""Damages a store once; returns False if the store has nothing for this kind."""
RecordPlace = tuple[Path, int, int]
"""A segment, a record's position in it, its size."""
_MAGICS = (0xDAA320A7, 0xDAA320AB)


def damage(root: Path, rnd: random.Random, kinds: Mapping[str, Kind] | None = None) -> list[str]:
    """Damage the store one to three times; a kind for which the store has nothing is skipped."""
    kinds, done = kinds or KINDS, []
    for _ in range(rnd.choice([1, 1, 1, 2, 3])):
        name = rnd.choice(sorted(kinds))
        if kinds[name](root, rnd):
            done.append(name)
    return done


def records(root: Path) -> list[RecordPlace]:
    """Yield the records of each segment, up to the first bytes that are none."""
    return [place for path in _files(root, "commitlog") for place in _records_of(path)]


def _records_of(path: Path) -> Iterator[RecordPlace]:
    data, at = path.read_bytes(), 0
    while at + 8 <= len(data):
        size, magic = (int.from_bytes(data[at + n : at + n + 4], "big") for n in (0, 4))
        if not 0 < size <= len(data) - at or magic not in _MAGICS:
            return
        yield path, at, size
        at += size


def _files(root: Path, folder: str) -> list[Path]:
    return sorted(path for path in (root / folder).rglob("*") if path.is_file())


def _rewrite(path: Path, change: Callable[[bytearray], None]) -> None:
    status, data = path.stat(), bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _on_record(change: Callable[[bytearray, int, int, random.Random], None]) -> Callable[[Path, random.Random], bool]:
    def damage_one(root: Path, rnd: random.Random) -> bool:
        places = records(root)
        if places:
            path, at, size = rnd.choice(places)
            _rewrite(path, lambda data: change(data, at, size, rnd))
        return bool(places)

    return damage_one


def _on_file(folder: str, change: Callable[[Path, random.Random], None]) -> Callable[[Path, random.Random], bool]:
    def damage_one(root: Path, rnd: random.Random) -> bool:
        files = [path for path in _files(root, folder) if path.stat().st_size]
        if files:
            change(rnd.choice(files), rnd)
        return bool(files)

    return damage_one


def _flip_body(data: bytearray, at: int, size: int, rnd: random.Random) -> None:
    data[at + size // 2] ^= 1 << rnd.randrange(8)


def _flip_any(data: bytearray, at: int, size: int, rnd: random.Random) -> None:
    data[at + rnd.randrange(size)] ^= 1 << rnd.randrange(8)


def _cut_record(data: bytearray, at: int, size: int, rnd: random.Random) -> None:
    start = at + rnd.randrange(1, size)
    data[start:] = bytes(len(data) - start)


def _zero_record(data: bytearray, at: int, size: int, rnd: random.Random) -> None:
    data[at : at + size] = bytes(size)


def _zero_tail(data: bytearray, at: int, size: int, rnd: random.Random) -> None:
    data[at:] = bytes(len(data) - at)


def _zero_file(path: Path, rnd: random.Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _flip_unit(path: Path, rnd: random.Random) -> None:
    at = rnd.randrange(path.stat().st_size // 20) * 20 + rnd.randrange(20)

    def flip(data: bytearray) -> None:
        data[at] ^= 1 << rnd.randrange(8)

    _rewrite(path, flip)


def _drop_queue(root: Path, rnd: random.Random) -> bool:
    queues = sorted(path for path in (root / "consumequeue").glob("*/*") if path.is_dir())
    if queues:
        shutil.rmtree(rnd.choice(queues))
    return bool(queues)


def _drop_folder(name: str) -> Callable[[Path, random.Random], bool]:
    def drop(root: Path, rnd: random.Random) -> bool:
        found = (root / name).is_dir()
        shutil.rmtree(root / name, ignore_errors=True)
        return found

    return drop


def _drop_last_queue_file(root: Path, rnd: random.Random) -> bool:
    queues = sorted(path for path in (root / "consumequeue").glob("*/*") if path.is_dir() and any(path.iterdir()))
    if queues:
        max(rnd.choice(queues).iterdir()).unlink()
    return bool(queues)


def _drop_last_segment(root: Path, rnd: random.Random) -> bool:
    segments = _files(root, "commitlog")
    if len(segments) > 1:
        segments[-1].unlink()
    return len(segments) > 1


def _zero_last_segment(root: Path, rnd: random.Random) -> bool:
    segments = _files(root, "commitlog")
    if segments:
        _zero_file(segments[-1], rnd)
    return bool(segments)


def _older_checkpoint(root: Path, rnd: random.Random) -> bool:
    def age(data: bytearray) -> None:
        for at in (0, 8, 16):
            time_ms = int.from_bytes(data[at : at + 8], "big") - rnd.randrange(20000)
            data[at : at + 8] = max(0, time_ms).to_bytes(8, "big")

    if (root / "checkpoint").exists():
        _rewrite(root / "checkpoint", age)
    return (root / "checkpoint").exists()


def _empty_checkpoint(root: Path, rnd: random.Random) -> bool:
    (root / "checkpoint").write_bytes(bytes(4096))
    return True


def _crash(root: Path, rnd: random.Random) -> bool:
    (root / "abort").touch()
    return True


def _close(root: Path, rnd: random.Random) -> bool:
    (root / "abort").unlink(missing_ok=True)
    return True


def _drop_file(path: Path, rnd: random.Random) -> None:
    path.unlink()


KINDS: dict[str, Kind] = {
    "flip-body": _on_record(_flip_body),
    "flip-any": _on_record(_flip_any),
    "cut-record": _on_record(_cut_record),
    "zero-record": _on_record(_zero_record),
    "zero-tail": _on_record(_zero_tail),
    "no-queue": _drop_queue,
    "no-queues": _drop_folder("consumequeue"),
    "no-index": _drop_folder("index"),
    "no-index-file": _on_file("index", _drop_file),
    "zero-queue-file": _on_file("consumequeue", _zero_file),
    "flip-unit": _on_file("consumequeue", _flip_unit),
    "no-last-queue-file": _drop_last_queue_file,
    "no-last-segment": _drop_last_segment,
    "zero-last-segment": _zero_last_segment,
    "empty-checkpoint": _empty_checkpoint,
    "older-checkpoint": _older_checkpoint,
    "crash": _crash,
    "close": _close,
}


def _empty_queue(root: Path, rnd: random.Random) -> bool:
    queues = sorted(path for path in (root / "consumequeue").glob("*/*") if path.is_dir())
    for path in list(rnd.choice(queues).iterdir()) if queues else ():
        path.unlink()
    return bool(queues)


def _swap_queue_files(root: Path, rnd: random.Random) -> bool:
    files = _files(root, "consumequeue")
    if len(files) > 1:
        one, other = rnd.sample(files, 2)
        data = one.read_bytes()
        one.write_bytes(other.read_bytes())
        other.write_bytes(data)
    return len(files) > 1


def _truncate_file(path: Path, rnd: random.Random) -> None:
    os.truncate(path, rnd.choice([0, path.stat().st_size // 2]))


def _zero_units(path: Path, rnd: random.Random) -> None:
    start, stop = sorted(rnd.randrange(path.stat().st_size // 20 + 1) * 20 for _ in range(2))

    def clear(data: bytearray) -> None:
        data[start:stop] = bytes(stop - start)

    _rewrite(path, clear)


def _blank_units(path: Path, rnd: random.Random) -> None:
    stop = (1 + rnd.randrange(path.stat().st_size // 20)) * 20

    def blank(data: bytearray) -> None:
        data[:stop] = (bytes(8) + (0x7FFFFFFF).to_bytes(4, "big") + bytes(8)) * (stop // 20)

    _rewrite(path, blank)


def _drop_first_segment(root: Path, rnd: random.Random) -> bool:
    return _drop_one(_files(root, "commitlog")[:-1][:1])


def _drop_segment(root: Path, rnd: random.Random) -> bool:
    segments = _files(root, "commitlog")[1:-1]
    return _drop_one([rnd.choice(segments)] if segments else [])


def _drop_one(files: list[Path]) -> bool:
    for path in files:
        path.unlink()
    return bool(files)


MORE_KINDS: dict[str, Kind] = {
    **KINDS,
    "blank-units": _on_file("consumequeue", _blank_units),
    "empty-queue": _empty_queue,
    "no-queue-file": _on_file("consumequeue", _drop_file),
    "no-first-segment": _drop_first_segment,
    "no-segment": _drop_segment,
    "swap-queue-files": _swap_queue_files,
    "truncate-index-file": _on_file("index", _truncate_file),
    "truncate-queue-file": _on_file("consumequeue", _truncate_file),
    "zero-units": _on_file("consumequeue", _zero_units),
}
