"""Stores for Spark, what it finds in them, and what it writes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.message import StoredMessage, decode_record
from store.formats.run import Run
from store.opened.detect import infer_config, make_layout
from store.query.spark.rebuild import rebuild_on_spark
from store.structures.commitlog.scan import ScanRules
from store.structures.commitlog.slices import split_into, walk_slice
from store.structures.findings import Finding
from store.verbs.check.check import check_files
from store.verbs.rebuild.local import rebuild_locally
from store.verbs.rebuild.scope import RebuildReport, RebuildScope
from tests.support.golden import golden
from tests.support.stores import overwrite


def findings(root: Path) -> list[Finding]:
    return sorted(check_files(StoreReader(str(root))), key=lambda f: (f.file, f.offset, *f.place, f.detail))


def segment(root: Path, number: int = 0) -> Path:
    return sorted((root / "commitlog").iterdir())[number]


def queue_file(root: Path) -> Path:
    return root / "consumequeue" / "TopicA" / "0" / f"{0:020d}"


def index_file(root: Path) -> Path:
    return sorted((root / "index").iterdir())[0]


def shift_units(root: Path) -> None:
    data = queue_file(root).read_bytes()
    overwrite(queue_file(root), 0, data[20:60])


DAMAGES: dict[str, Callable[[Path], None]] = {
    "bad-crc": lambda root: overwrite(segment(root), 89, b"~"),
    "bad-length": lambda root: overwrite(segment(root), 0, b"\0\0\0\x20"),
    "bad-self-offset": lambda root: overwrite(segment(root), 28, (77).to_bytes(8, "big")),
    "time-backwards": lambda root: overwrite(segment(root), 56, (1 << 50).to_bytes(8, "big")),
    "missing-segment": lambda root: segment(root, 1).unlink(),
    "stale-tail": lambda root: overwrite(segment(root), 245, bytes(8)),
    "queue-gap": lambda root: overwrite(queue_file(root), 20, bytes(20)),
    "queue-shift": shift_units,
    "queue-duplicate": lambda root: overwrite(queue_file(root), 20, queue_file(root).read_bytes()[:20]),
    "missing-unit": lambda root: queue_file(root).unlink(),
    "unit-differs": lambda root: overwrite(queue_file(root), 8, (9).to_bytes(4, "big")),
    "unit-nowhere": lambda root: overwrite(queue_file(root), 20, (2871).to_bytes(8, "big")),
    "unit-wrong-record": lambda root: overwrite(queue_file(root), 0, (245).to_bytes(8, "big")),
    "missing-index-entry": lambda root: overwrite(index_file(root), 40 + 4 * 500 + 20, (5).to_bytes(4, "big")),
    "index-entry-nowhere": lambda root: overwrite(index_file(root), 40 + 4 * 500 + 24, (3).to_bytes(8, "big")),
    "broken-chain": lambda root: overwrite(index_file(root), 40 + 4 * 500 + 20 * 900 + 16, (899).to_bytes(4, "big")),
    "index-header": lambda root: overwrite(index_file(root), 32, (7).to_bytes(4, "big")),
    "checkpoint-ahead": lambda root: overwrite(root / "checkpoint", 0, (1 << 50).to_bytes(8, "big")),
}


Place = Callable[[Path], tuple[Path, int, int, int]]


@cache
def records(name: str) -> list[tuple[Place, int]]:
    files, found = StoreReader(str(golden(name).store)), []
    for part in split_into(files.segments(), 1):
        for step in walk_slice(files, part, ScanRules()):
            if isinstance(step, Run):
                for i in range(step.count - 1):
                    position, body = int(step.columns.position[i]), int(step.columns.body_position[i])
                    if step.columns.body_size[i]:
                        found.append((_place(part.path, position, body, step.file_start + position), position))
    return found


def _place(path: str, *numbers: int) -> Place:
    return lambda root: (root / path, *numbers)  # type: ignore[return-value]


NOW_MS = 1_700_000_000_000


def digests(root: Path) -> tuple[dict[str, str], list[str]]:
    """Queue files by name, index files in order: the names of the latter are times."""

    def digest(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    queues = {str(p.relative_to(root)): digest(p) for p in (root / "consumequeue").rglob("*") if p.is_file()}
    return queues, [digest(p) for p in sorted((root / "index").glob("*"))]


def by_spark(spark: Any, store: Path, staging: Path, parts: int, scope: RebuildScope | None = None) -> RebuildReport:
    config = infer_config(make_layout(store, {}), {}, Filesystem())
    return rebuild_on_spark(
        spark, str(store), staging, config, scope or RebuildScope(), now_ms=NOW_MS, parts_per_segment=parts
    )


def locally(store: Path, staging: Path, scope: RebuildScope | None = None) -> RebuildReport:
    config = infer_config(make_layout(store, {}), {}, Filesystem())
    return rebuild_locally(StoreReader(str(store)), staging, config, scope or RebuildScope(), clock=lambda: NOW_MS)


def forget_all_but_the_log(root: Path) -> Path:
    """The store without consumequeue/ and index/, and with times of zero in the checkpoint."""
    for folder in ("consumequeue", "index"):
        for path in sorted((root / folder).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    if (root / "checkpoint").exists():
        overwrite(root / "checkpoint", 0, bytes(24))
    return root


def sizes_of(root: Path) -> dict[str, Any]:
    """The settings that are read off the files, for when these are gone."""
    config = infer_config(make_layout(root, {}), {}, Filesystem())
    return {
        "mappedFileSizeConsumeQueue": config.mapped_file_size_consume_queue,
        "maxHashSlotNum": config.max_hash_slot_num,
        "maxIndexNum": config.max_index_num,
    }


def records_of(path: str, parts: int = 1) -> list[tuple[int, StoredMessage]]:
    """Log offset and message of every record, each decoded by itself."""
    files = StoreReader(path)
    found = []
    for part in split_into(files.segments(), parts):
        for step in walk_slice(files, part, ScanRules()):
            if isinstance(step, Run):
                for at, size in zip(step.columns.position, step.columns.size, strict=True):
                    found.append((step.file_start + int(at), decode_record(step.buffer[at : at + size])))
    return found


def table(spark: Any, path: str, **options: str) -> Any:
    return spark.read.format("rocketmq").options(**options).load(path)
