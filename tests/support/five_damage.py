"""Damage every file of the 5.x stores in every way, and say what `check` does not name:

    python -m tests.support.five_damage [--store NAME]... [--file TEXT] [--flips N] [--all]

Of each file N bytes are flipped, one at a time; units and pages are zeroed, overwritten and swapped; the file is cut,
grown, emptied, removed and swapped with its neighbour. Each damage is done to the sound store, and taken back. Prints
each damage that leaves `check` with the findings of the sound store, unless DEAD says why nobody reads the bytes; the
exit code is 1 when there are any. --all prints the dead ones too.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from store import check
from tests.support.five_stores import ARCHIVES, copy_of_five

PARTS = (20, 46, 52, 512)
"""Sizes of a queue's unit, a batch queue's, a timer log's, and a sector."""
NAMES = tuple(sorted(path.name.removesuffix(".tar.xz") for path in ARCHIVES.glob("*.tar.xz")))


@dataclass(frozen=True)
class Damage:
    """One damage to a file: bytes at a position, and the length afterwards, None for no file."""

    file: str
    kind: str
    position: int
    data: bytes
    size: int | None


@dataclass(frozen=True)
class Dead:
    """Files, kinds of damage and positions where a damage changes nothing for any reader, and the reason."""

    file: str
    reason: str
    kinds: str = ".*"
    positions: Callable[[int], bool] = lambda position: True

    def covers(self, damage: Damage) -> bool:
        found = re.fullmatch(self.file, damage.file) and re.fullmatch(self.kinds, damage.kind)
        return bool(found) and self.positions(damage.position)


def _in_slot(*fields: tuple[int, int]) -> Callable[[int], bool]:
    return lambda position: any(start <= position % 32 < stop for start, stop in fields)


DEAD = (
    Dead(r".*\.bak", "read only where the file beside it cannot be"),
    Dead("lock|abort.*", "their being there counts, no byte of them"),
    Dead("checkpoint", "bytes 24 to 39 are read in controller mode only", positions=lambda at: 24 <= at < 40),
    Dead("checkpoint", "a lower promise, or none: a recovery reads more", "flip|zero.*", lambda at: at < 24),
    Dead("checkpoint", "bytes behind the page", "grow"),
    Dead(
        "commitlog/.*|dledger-.*/data/.*",
        "no CRC covers flags, birth, hosts and properties of a record",
        "flip|(zero|random|swap) (20|46|52)",
    ),
    Dead("commitlog/0{20}", "the only segment tells its own size", "cut|grow"),
    Dead("index/.*", "an empty slot that points behind the last entry is empty", "flip", lambda at: 40 <= at < 2040),
    Dead("index/.*", "room behind the last entry, which a start makes anew", "cut"),
    Dead("commitlog/.*|dledger-.*/data/.*", "a first file that is not there has expired", "remove"),
    Dead("compaction/compactionLog/.*", "a blank ends the file, whatever it says of its size", "flip"),
    Dead("compaction/position-checkpoint", "lower, or none: everything is compacted once more", "flip|remove|other"),
    Dead("timerlog/.*", "behind the blank", positions=lambda at: at >= 588),
    Dead("timerwheel", "first position and count of a slot that has fired", "flip", _in_slot((8, 16), (24, 28))),
    Dead("timerwheel", "slots that have fired are never read again", "(zero|random|swap) .*"),
    Dead("config/timercheck", "a version: slaves compare it for being another", positions=lambda at: 32 <= at < 56),
    Dead("config/timercheck", "of a killed broker the flushed position may be behind", "flip", lambda at: 8 <= at < 16),
    Dead("config/timercheck", "a master's offset counts where it is the smaller one", "flip", lambda at: 24 <= at < 32),
    Dead("config/timermetrics", "counts drift, and a broker counts anew each day", "flip|remove"),
    Dead("dledger-.*/checkpoint", "a committed index may be behind, and a line's end missing", "flip|cut"),
    Dead("dledger-.*/currterm", "whom the member voted for, and the last line's end", "flip|cut", lambda at: at >= 11),
    Dead(
        "consumequeue/OPTIONS-.*|consumequeue/IDENTITY", "a broker gives RocksDB its options, and asks for no identity"
    ),
    Dead("consumequeue/MANIFEST-.*", "RocksDB reads up to the last whole record", "grow"),
    Dead("consumequeue/.*[.]sst", "filters and properties, which a walk over all keys does not read", "(zero|swap) 20"),
    Dead("consumequeue/.*", "without a size it is no unit, whatever else it says", "flip|random .*"),
    Dead("config/topics.json", "the topics' settings, which nothing else repeats"),
)
"""Damages that change nothing for any reader, or that cannot be told from what a broker writes."""


class Contents:
    """The bytes of a file that are written, and its length; holes are zeros that nobody wrote."""

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, path.stat().st_size
        with path.open("rb") as file:
            self.pieces = {start: os.pread(file.fileno(), stop - start, start) for start, stop in data_ranges(file)}
        self.written = [
            start + at
            for start, data in self.pieces.items()
            for at in range(len(data))
            if any(data[max(0, at - 8) : at + 8])
        ]

    def read(self, position: int, size: int) -> bytes:
        with self.path.open("rb") as file:
            return os.pread(file.fileno(), size, position)

    def restore(self) -> None:
        """Write the file as it was."""
        with self.path.open("wb") as file:
            for start, data in self.pieces.items():
                os.pwrite(file.fileno(), data, start)
            file.truncate(self.size)


def data_ranges(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a file that are no holes."""
    stop = 0
    while True:
        try:
            start = os.lseek(file.fileno(), stop, os.SEEK_DATA)
        except OSError:
            return
        stop = os.lseek(file.fileno(), start, os.SEEK_HOLE)
        yield start, stop


def damages(file: str, of: Contents, flips: int, rnd: random.Random) -> Iterator[Damage]:
    """Yield every damage to a file; damages to parts are at random places in written bytes."""
    yield from (Damage(file, *rest) for rest in whole_file(of))
    for at in sorted(rnd.sample(of.written, min(flips, len(of.written)))):
        flipped = of.read(at, 1)[0] ^ 1 << rnd.randrange(8)
        yield Damage(file, "flip", at, bytes([flipped]), of.size)
    for size in PARTS:
        for at in sorted({at - at % size for at in rnd.sample(of.written, min(4, len(of.written)))}):
            part, following = of.read(at, size), of.read(at + size, size)
            yield Damage(file, f"zero {size}", at, bytes(len(part)), of.size)
            yield Damage(file, f"random {size}", at, rnd.randbytes(len(part)), of.size)
            if len(following) == size:
                yield Damage(file, f"swap {size}", at, following + part, of.size)


def whole_file(of: Contents) -> Iterator[tuple[str, int, bytes, int | None]]:
    yield "remove", 0, b"", None
    yield "empty", 0, b"", 0
    for start, data in of.pieces.items():
        yield "zero", start, bytes(len(data)), of.size
    yield "cut", of.size // 2, b"", of.size // 2
    yield "cut", of.size - 1, b"", of.size - 1
    yield "grow", of.size, b"\1" * 50, of.size + 50
    for other in sorted(of.path.parent.iterdir()):
        if other.is_file() and other.name > of.path.name and other.stat().st_size < 1 << 20:
            yield "other", 0, other.read_bytes(), other.stat().st_size
            break


def apply(path: Path, damage: Damage) -> None:
    if damage.size is None:
        path.unlink()
        return
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), damage.data, damage.position)
        file.truncate(damage.size)


def findings(root: Path) -> list[str]:
    return sorted(str(finding).replace(str(root), "") for finding in check(root))


def unnamed(name: str, only: str, flips: int, rnd: random.Random) -> Iterator[tuple[Damage, bool]]:
    """Yield each damage to a store that check does not find, and whether DEAD covers it."""
    folder = Path(tempfile.mkdtemp(prefix="damage-"))
    try:
        root = copy_of_five(name, folder)
        sound = findings(root)
        for file in files_of(root):
            of = Contents(root / file)
            for damage in damages(file, of, flips, rnd) if only in file else ():
                if damage.size == of.size and of.read(damage.position, len(damage.data)) == damage.data:
                    continue
                status = (root / file).stat()
                apply(root / file, damage)
                if findings(root) == sound:
                    yield damage, any(dead.covers(damage) for dead in DEAD)
                of.restore()
                os.utime(root / file, ns=(status.st_atime_ns, status.st_mtime_ns))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def files_of(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.stat().st_size)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.five_damage")
    parser.add_argument("--store", action="append", choices=NAMES, help="of fixtures/five; all without")
    parser.add_argument("--file", default="", help="files with this text in their path")
    parser.add_argument("--flips", type=int, default=60, help="bytes flipped in each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="print also what DEAD says nobody reads")
    options = parser.parse_args(arguments)
    found = 0
    for name in options.store or NAMES:
        rnd = random.Random(options.seed)
        for damage, is_dead in unnamed(name, options.file, options.flips, rnd):
            found += not is_dead
            if options.all or not is_dead:
                print(f"{name} {damage.file}: {damage.kind} at {damage.position}", flush=True)
    print(f"{found} damages that check does not name")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
