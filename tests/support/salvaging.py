"""Damages to a log, and the records that it holds."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from store.files.filesystem import Filesystem
from store.verbs.salvage.carve import BLOCK_SIZE
from store.verbs.salvage.grade import Grade, SalvagedRun
from store.verbs.salvage.salvage import SalvageReport, salvage_runs
from tests.support.golden import golden
from tests.support.stores import SMALL

Touched = list[tuple[int, int]]
"""Log offsets [start, stop) whose bytes were changed, moved or removed."""


def records_of(path: Path, report: SalvageReport | None = None) -> dict[int, tuple[Grade, bytes]]:
    """Grade and bytes of every salvaged record by log offset."""
    found: dict[int, tuple[Grade, bytes]] = {}
    for run in salvage_runs(path, Filesystem(), report or SalvageReport(), delay_levels_ms=DELAYS):
        found |= {int(offset): (run.grade, data) for offset, data in zip(run.log_offsets, bytes_of(run), strict=True)}
    return found


def bytes_of(run: SalvagedRun) -> list[bytes]:
    columns = run.run.columns
    spans = zip(columns.position.tolist(), columns.size.tolist(), strict=True)
    return [bytes(run.run.buffer[at : at + size]) for at, size in spans]


DELAYS = tuple(
    1000 * n for n in (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
)


def segments(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def rewrite(path: Path, change: Callable[[bytearray], None]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def flip_bit_in_a_body(root: Path, rng: random.Random) -> Touched:
    offset, (_, record) = rng.choice([one for one in records_of(root).items() if body_size(one[1][1])])
    segment = max((one for one in segments(root) if int(one.name) <= offset), key=lambda one: int(one.name))
    at = offset - int(segment.name) + body_start(record) + rng.randrange(body_size(record))
    rewrite(segment, lambda data: data.__setitem__(at, data[at] ^ 1 << rng.randrange(8)))
    return [(int(segment.name) + at, int(segment.name) + at + 1)]


def body_start(record: bytes) -> int:
    flags = int.from_bytes(record[36:40], "big")
    return 88 + (12 if flags & 16 else 0) + (12 if flags & 32 else 0)


def body_size(record: bytes) -> int:
    at = body_start(record) - 4
    return int.from_bytes(record[at : at + 4], "big")


def zero_a_page(root: Path, rng: random.Random) -> Touched:
    segment = rng.choice(segments(root))
    page = rng.randrange(segment.stat().st_size // 4096)
    start = int(segment.name) + page * 4096
    rewrite(segment, lambda data: data.__setitem__(slice(page * 4096, page * 4096 + 4096), bytes(4096)))
    return [(start, start + 4096)]


def remove_a_segment(root: Path, rng: random.Random) -> Touched:
    segment = rng.choice(segments(root))
    touched = [(int(segment.name), int(segment.name) + segment.stat().st_size)]
    segment.unlink()
    return touched


SEGMENT = SMALL["mappedFileSizeCommitLog"]


def image_of(name: str, path: Path, rng: random.Random, *, lost: int = 0) -> None:
    """An image of a store's segments in shuffled extents of whole blocks; `lost` of the extents are not in it."""
    extents = []
    for segment in sorted((golden(name).store / "commitlog").iterdir()):
        data, at = segment.read_bytes(), 0
        while at < len(data):
            size = rng.randrange(1, 5) * BLOCK_SIZE
            extents.append(data[at : at + size])
            at += size
    rng.shuffle(extents)
    noise = [rng.randbytes(rng.randrange(0, 3) * BLOCK_SIZE) for _ in extents]
    path.write_bytes(b"".join(part for pair in zip(extents[lost:], noise, strict=False) for part in pair))
