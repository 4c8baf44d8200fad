"""Every kind of damage a dozen times, at places drawn by lot: check names it, and audit says the same.

Every store is audited without Spark, the steps of audit one after another and with everything pickled that Spark would
pickle; some of each kind, and of those with several damages at once, on Spark itself (DAMAGED_STORES=all: every one).
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from store.files.store_reader import StoreReader
from store.formats.index_page import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from store.formats.queue_unit import UNIT_SIZE
from store.query.spark import audit as audit_module
from store.structures.consumequeue.survey import QueueFile
from store.structures.findings import KINDS, Finding
from store.structures.index.survey import IndexFile
from store.structures.registry import STRUCTURES
from store.verbs.check.check import SurveyRules, check_files, survey_share
from store.verbs.check.listing import Listing
from tests.support.golden import copy_store, golden
from tests.support.spark_stores import findings, records
from tests.support.stores import overwrite

VARIATIONS = 12
SEVERAL = range(20)
# On Spark itself a job takes a second or two, so it sees some of each kind, or all of them on request.
_STEP_ON_SPARK = 1 if os.environ.get("DAMAGED_STORES") == "all" else 6
ON_SPARK, SEVERAL_ON_SPARK = range(0, VARIATIONS, _STEP_ON_SPARK), SEVERAL[::_STEP_ON_SPARK]
AT_ONCE = 4


class Victim:
    """A copy of a healthy store, and lots to draw its records, units and entries by."""

    def __init__(self, root: Path, seed: int, name: str = "normal") -> None:
        self.root, self.random, self.name = root, Random(seed), name
        copy_store(golden(name).store, root)

    def record(self) -> tuple[Path, int, int, int]:
        """File, position, body position and log offset of a record with others behind it in its segment."""
        return self.random.choice(records(self.name))[0](self.root)

    def queue(self) -> tuple[Path, int]:
        """A queue file and the number of its units, at least four."""
        path, count = self.random.choice([q for q in queues(self.name) if q[1] >= 4])
        return self.root / path, count

    def unit(self) -> tuple[Path, int]:
        """A queue file and the position of a unit that has two behind it and one before."""
        path, count = self.queue()
        return path, self.random.randrange(1, count - 2) * UNIT_SIZE

    def entry(self) -> tuple[Path, int]:
        """An index file and the position of an entry."""
        path, slots, count = index_files(self.name)[0]
        number = self.random.randrange(1, count)
        return self.root / path, HEADER_SIZE + slots * SLOT_SIZE + number * ENTRY_SIZE

    def number(self, byte_count: int) -> bytes:
        return self.random.randrange(1, 1 << 7).to_bytes(byte_count, "big")


@cache
def queues(name: str) -> list[tuple[str, int]]:
    files = StoreReader(str(golden(name).store))
    return [(s.path, s.last_unit + 1) for s in surveys_of(files) if isinstance(s, QueueFile)]


@cache
def index_files(name: str) -> list[tuple[str, int, int]]:
    files = StoreReader(str(golden(name).store))
    return [(s.path, s.slot_count, s.count) for s in surveys_of(files) if isinstance(s, IndexFile)]


def surveys_of(files: StoreReader) -> list[QueueFile | IndexFile]:
    listing = Listing.of(files, {})
    rules = SurveyRules(listing.queue_file_size, listing.index_geometries, listing.segments)
    return [survey for share in listing.shares() for survey in survey_share(files, rules, share).surveys]


def bad_crc(victim: Victim) -> None:
    path, _, body, _ = victim.record()
    overwrite(path, body, bytes([path.read_bytes()[body] ^ victim.random.randrange(1, 256)]))


def bad_length(victim: Victim) -> None:
    path, at, _, _ = victim.record()
    overwrite(path, at, victim.number(4))


def bad_self_offset(victim: Victim) -> None:
    path, at, _, log_offset = victim.record()
    overwrite(path, at + 28, (log_offset + victim.random.randrange(1, 1 << 40)).to_bytes(8, "big"))


def time_backwards(victim: Victim) -> None:
    path, at, _, _ = victim.record()
    overwrite(path, at + 56, ((1 << 50) + victim.random.randrange(1 << 40)).to_bytes(8, "big"))


def missing_segment(victim: Victim) -> None:
    segments = sorted((victim.root / "commitlog").iterdir())
    victim.random.choice(segments[1:-1]).unlink()


def stale_tail(victim: Victim) -> None:
    path, at, _, _ = victim.record()
    overwrite(path, at, bytes(8))


def queue_gap(victim: Victim) -> None:
    overwrite(*victim.unit(), bytes(UNIT_SIZE))


def queue_shift(victim: Victim) -> None:
    path, at = victim.unit()
    overwrite(path, at, path.read_bytes()[at + UNIT_SIZE : at + 3 * UNIT_SIZE])


def queue_duplicate(victim: Victim) -> None:
    path, at = victim.unit()
    overwrite(path, at, path.read_bytes()[at - UNIT_SIZE : at])


def missing_unit(victim: Victim) -> None:
    path, count = victim.queue()
    if victim.random.random() < 0.5:
        path.unlink()
    else:
        overwrite(path, (count - 1) * UNIT_SIZE, bytes(UNIT_SIZE))


def unit_differs(victim: Victim) -> None:
    path, at = victim.unit()
    overwrite(path, at + 12, victim.random.randbytes(8))


def unit_nowhere(victim: Victim) -> None:
    path, at = victim.unit()
    overwrite(path, at, (victim.record()[3] + victim.random.randrange(1, 80)).to_bytes(8, "big"))


def unit_wrong_record(victim: Victim) -> None:
    path, at = victim.unit()
    mine = {path.read_bytes()[n : n + 8] for n in range(0, at + 10 * UNIT_SIZE, UNIT_SIZE)}
    others = (victim.record()[3].to_bytes(8, "big") for _ in range(100))
    overwrite(path, at, next(offset for offset in others if offset not in mine))


def missing_index_entry(victim: Victim) -> None:
    path, at = victim.entry()
    overwrite(path, at, victim.number(4))


def index_entry_nowhere(victim: Victim) -> None:
    path, at = victim.entry()
    overwrite(path, at + 4, (victim.record()[3] + victim.random.randrange(1, 80)).to_bytes(8, "big"))


def broken_chain(victim: Victim) -> None:
    path, at = victim.entry()
    old = int.from_bytes(path.read_bytes()[at + 16 : at + 20], "big")
    overwrite(path, at + 16, (old + victim.random.randrange(1, 100)).to_bytes(4, "big"))


def index_header(victim: Victim) -> None:
    path, _ = victim.entry()
    overwrite(path, victim.random.choice([16, 24, 32]), victim.number(4))


def checkpoint_ahead(victim: Victim) -> None:
    at = victim.random.choice([0, 8])
    overwrite(victim.root / "checkpoint", at, ((1 << 50) + victim.random.randrange(1 << 40)).to_bytes(8, "big"))


def foreign_file(victim: Victim) -> None:
    queue = victim.queue()[0].parent
    name = victim.random.choice(["notes.txt", ".DS_Store", "00000000000000000000.bak"])
    places = (victim.root / "commitlog", victim.root / "index", queue, queue.parent, victim.root / "consumequeue")
    (victim.random.choice(places) / name).touch()


def index_time(victim: Victim) -> None:
    path, at = victim.entry()
    header = victim.random.random() < 0.3
    overwrite(
        path, 8 if header else at + 12, (victim.random.randrange(1 << 30) + 1).to_bytes(8 if header else 4, "big")
    )


def lost_index(victim: Victim) -> None:
    shutil.rmtree(victim.root / "index")


def lost_extension(victim: Victim) -> None:
    path, at = victim.unit()
    overwrite(path, at + 12, (-(1 << 63) + victim.random.randrange(1 << 20)).to_bytes(8, "big", signed=True))


def checkpoint_invalid(victim: Victim) -> None:
    path = victim.root / "checkpoint"
    damage = victim.random.choice(["lost", "short", "negative", "all ones"])
    if damage == "lost":
        path.unlink()
    elif damage == "short":
        os.truncate(path, victim.random.randrange(4096))
    else:
        overwrite(path, 8 * victim.random.randrange(3), b"\xff" * (8 if damage == "negative" else 4096))


def wrong_size(victim: Victim) -> None:
    if victim.random.random() < 0.5:
        path, _ = victim.queue()
    else:
        path = victim.random.choice(sorted((victim.root / "commitlog").iterdir())[1:])
    os.truncate(path, path.stat().st_size + victim.random.choice([-1, 1]) * victim.random.randrange(1, UNIT_SIZE))


DAMAGES = (
    foreign_file, bad_crc, bad_length, bad_self_offset, time_backwards, missing_segment, stale_tail,
    queue_gap, queue_shift, queue_duplicate, missing_unit, unit_differs, unit_nowhere, unit_wrong_record,
    missing_index_entry, index_entry_nowhere, broken_chain, index_header, checkpoint_ahead, wrong_size,
    index_time, lost_index, lost_extension, checkpoint_invalid,
)  # fmt: skip


# Files are taken away or cut when all else is damaged.
LAST = (missing_unit, wrong_size, missing_segment, lost_index, checkpoint_invalid)


def damage_several(root: Path, seed: int) -> Path:
    """A copy of one of several stores with two to five kinds of damage, all drawn by lot."""
    random = Random(f"several {seed}")
    victim = Victim(root, seed, random.choice(["normal", "many", "batch", "ipv6", "normal5"]))
    damages = random.sample(DAMAGES, random.randrange(2, 6))
    for damage in sorted(damages, key=lambda damage: LAST.index(damage) if damage in LAST else -1):
        damage(victim)
    return root


def in_this_process(_: Any, work: Callable[[Any], Any], shares: Iterable[Any]) -> Iterator[Any]:
    """store.query.spark.tasks.map_tasks without Spark."""
    for share in shares:
        yield pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(work))(pickle.loads(pickle.dumps(share)))))


def audited(root: Path) -> list[Finding]:
    return audit_module.audit_store(None, str(root))


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_at_any_place_is_found_under_its_name_by_check_and_audit_alike(
    damage: Callable[[Victim], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "map_tasks", in_this_process)
    missed = []
    for seed in range(VARIATIONS):
        root = tmp_path / str(seed)
        damage(Victim(root, seed))
        found = findings(root)
        if damage.__name__.replace("_", "-") not in {finding.kind for finding in found}:
            missed.append((seed, sorted({finding.kind for finding in found})))
        assert audited(root) == found
    assert missed == []


def test_every_kind_that_check_knows_is_among_them() -> None:
    for one in STRUCTURES:
        one.furniture("check")
    kinds = set(KINDS)
    # Those of bad sectors, of links and of 5.x's structures have tests of their own.
    elsewhere = {
        "message-database",
        "message-entry-nowhere",
        "missing-message-entry",
        "queue-type",
        "light-queues-without-files",
        "inner-batch",
        "missing-record",
        "queue-leap",
        "unreadable-units",
        "unreadable-index",
        "state-file",
        "link",
        "newer",
        "unknown",
        "topic-attribute",
        "undeliverable-message",
    }
    elsewhere |= {"bad-properties-crc", "copied-crc", "empty-segment", "odd-size"}
    own = ("compaction-", "timer-", "timeline-", "dledger-", "rocksdb-", "light-queue-")
    elsewhere |= {kind for kind in kinds if kind.startswith(own)}
    assert kinds == {damage.__name__.replace("_", "-") for damage in DAMAGES} | elsewhere


@pytest.mark.turns(4)
@pytest.mark.parametrize("seed", SEVERAL)
def test_several_damages_at_once_are_found_by_check_and_audit_alike(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "map_tasks", in_this_process)
    root = damage_several(tmp_path / "store", seed)
    assert audited(root) == findings(root) != []


def audit_and_check_agree(spark: Any, roots: Sequence[Path]) -> None:
    """A few audits at a time share the session."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        audits = list(pool.map(lambda root: audit_module.audit_store(spark, str(root)), roots))
    for root, found in zip(roots, audits, strict=True):
        assert found == findings(root) != []


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_audit_on_spark_finds_what_check_finds(spark: Any, damage: Callable[[Victim], None], tmp_path: Path) -> None:
    for seed in ON_SPARK:
        damage(Victim(tmp_path / str(seed), seed))
    audit_and_check_agree(spark, [tmp_path / str(seed) for seed in ON_SPARK])


@pytest.mark.spark
@pytest.mark.slow
def test_audit_on_spark_finds_what_check_finds_of_several_damages(spark: Any, tmp_path: Path) -> None:
    audit_and_check_agree(spark, [damage_several(tmp_path / str(seed), seed) for seed in SEVERAL_ON_SPARK])


def test_a_healthy_store_is_audited_without_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "map_tasks", in_this_process)
    for name in ("normal", "many", "batch", "ipv6", "normal5"):
        assert audited(golden(name).store) == list(check_files(StoreReader(str(golden(name).store)))) == []
