"""The line of `info` for each structure, by the files that are there."""

from __future__ import annotations

import struct
from importlib import import_module
from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.formats.topics import REVIVE_PREFIX
from store.layout import StoreLayout
from store.structures.registry import Present

LOST = "missing: pending messages may be lost"
CHECK = "config/timercheck"
TIMER, COMPACTED, BATCHES = "timer messages", "compacted topics", "set of batch consume queues"


def timercheck(*values: int) -> bytes:
    """A timercheck with read time, log end, queue end and master's queue end."""
    return struct.pack(">7q", *values, 9, 9, 9)


CASES: list[tuple[str, dict[str, bytes], list[Present]]] = [
    ("timer", {"x": b""}, []),
    ("timer", {"timerwheel": b"", "timerlog/0": b"", CHECK: b""}, [Present(TIMER, "timerwheel", "complete")]),
    ("timer", {"timerwheel": b"", "timerlog/0": b""}, [Present(TIMER, "timerwheel", f"{CHECK} {LOST}")]),
    ("timer", {"timerlog/0": b""}, [Present(TIMER, "timerlog", f"timerwheel, {CHECK} {LOST}")]),
    ("timer", {CHECK: timercheck(5, 0, 0, 0)}, [Present(TIMER, CHECK, f"timerwheel, timerlog {LOST}")]),
    *(
        ("timer", {"timerwheel": b"", CHECK: data}, [Present(TIMER, "timerwheel", detail)])
        for detail, pages in {
            "unused: no timer message was ever taken up": [timercheck(0, 0, 0, 0), timercheck(5, 0, 0, 0)],
            f"timerlog {LOST}": [
                timercheck(0, 1, 0, 0), timercheck(0, 0, 1, 0), timercheck(0, 0, 0, 1), timercheck(5, 0, 0, 0)[:55],
            ],
        }.items()
        for data in pages
    ),
    ("compaction", {"compaction/position-checkpoint": b""}, []),
    (
        "compaction", {f"compaction/compactionLog/{name}/0": b"" for name in "abcde"},
        [Present(COMPACTED, "compaction", "cleanup.policy=COMPACTION of a, b, c, d, e")],
    ),
    (
        "compaction", {f"compaction/compactionLog/{name}/0": b"" for name in "abcdef"},
        [Present(COMPACTED, "compaction", "cleanup.policy=COMPACTION of a, b, c, d, e")],
    ),
    ("batchqueue", {"batchconsumequeue/file": b""}, []),
    (
        "batchqueue", {f"batchconsumequeue/{name}/0": b"" for name in "abcdef"},
        [Present(BATCHES, "batchconsumequeue", "queue.type=BatchCQ of a, b, c, d, e")],
    ),
    ("dledger", {"dledger-n0": b"", "other/data/0": b"x"}, []),
    (
        "dledger", {"dledger-n0/data/0": b"abc", "dledger-n0/data/1": b"de", "dledger-n1/x": b""},
        [Present("DLedger commit log", "dledger-n0", "2 data files, 5 bytes"),
         Present("DLedger commit log", "dledger-n1", "0 data files, 0 bytes")],
    ),
    ("queuedb", {"consumequeue/T/0": b""}, []),
    (
        "queuedb", {"consumequeue/CURRENT": b""},
        [Present("RocksDB with the consume queues", "consumequeue", "storeType=defaultRocksDB", holds_queues=True)],
    ),
    (
        "queuedb", {"consumequeue/CURRENT": b"", "consumequeue/T/notes": b""},
        [Present("RocksDB with the consume queues", "consumequeue", "storeType=defaultRocksDB", holds_queues=True)],
    ),
    (
        "queuedb", {"consumequeue/CURRENT": b"", f"consumequeue/T/0/{0:020d}": b"", f"consumequeue/U/0/{0:020d}": b""},
        [Present("RocksDB with the consume queues", "consumequeue", "double write: file queues of 2 topics beside it")],
    ),
    ("lightqueue", {"consumequeue/T/0": b""}, []),
    (
        "lightqueue", {"consumequeue/T/0": b"", "consumequeue/%LMQ%a/0": b"", "consumequeue/%LMQ%b/0": b""},
        [Present("light queues", "consumequeue", "2 folders of INNER_MULTI_DISPATCH (%LMQ%…)")],
    ),
    (
        "pop",
        {"consumequeue/T/0": b"", f"consumequeue/{REVIVE_PREFIX}c/0": b"", f"consumequeue/{REVIVE_PREFIX}c/1": b""},
        [Present("pop consumers", f"consumequeue/{REVIVE_PREFIX}c",
                 "checkpoints and acknowledgements of pop consumers in 2 queues")],
    ),
    ("pop", {"kvStore/0": b""},
     [Present("kvStore", "kvStore", "messages in flight of pop consumers, in a RocksDB that is not read")]),
    ("epochs", {"x": b""}, []),
    ("tiered", {"tiered_index_file": b""},
     [Present("tiered storage", "tiered_index_file", "its index before the upload")]),
]  # fmt: skip


@pytest.mark.parametrize(("room", "files", "found"), CASES)
def test_a_structure_is_described_by_its_files(
    room: str, files: dict[str, bytes], found: list[Present], tmp_path: Path
) -> None:
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    describe = import_module(f"store.structures.{room}.show").describe
    assert list(describe(StoreLayout(tmp_path), Filesystem())) == found


@pytest.mark.parametrize(
    ("room", "folder", "words"),
    [
        ("compaction", "compaction/compactionLog", "cleanup.policy=COMPACTION"),
        ("batchqueue", "batchconsumequeue", "queue.type=BatchCQ"),
    ],
)
def test_at_most_five_topics_are_named(room: str, folder: str, words: str, tmp_path: Path) -> None:
    for count in range(1, 8):
        (tmp_path / folder / f"T{count}").mkdir(parents=True)
        [found] = import_module(f"store.structures.{room}.show").describe(StoreLayout(tmp_path), Filesystem())
        assert found.detail == f"{words} of {', '.join(f'T{number}' for number in range(1, min(count, 5) + 1))}"
