"""check and audit: silent on healthy stores, and the same words for every kind of damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from store.files.store_reader import StoreReader
from store.query.spark.audit import audit_store, findings_frame
from store.structures.findings import Finding
from store.verbs.check.check import check_files
from tests.support.golden import copy_store, golden
from tests.support.quickly import one_of


def findings(root: Path) -> list[Finding]:
    return sorted(check_files(StoreReader(str(root))), key=lambda f: (f.file, f.offset, *f.place, f.detail))


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


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


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", ["normal", "many", "batch", "ipv6", "aborted", "normal5", "preblank"])
def test_a_healthy_store_has_no_findings(name: str) -> None:
    assert findings(golden(name).store) == []


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", DAMAGES)
def test_each_kind_of_damage_is_found_under_its_name(kind: str, tmp_path: Path) -> None:
    root = copy_store(golden("normal").store, tmp_path / "store")
    DAMAGES[kind](root)
    assert kind in {finding.kind for finding in findings(root)}


@pytest.mark.spark
@pytest.mark.parametrize("kind", one_of(7, ["bad-crc", "stale-tail", "queue-shift", "broken-chain", "missing-segment"]))
def test_audit_finds_what_check_finds(spark: Any, kind: str, tmp_path: Path) -> None:
    root = copy_store(golden("normal").store, tmp_path / "store")
    DAMAGES[kind](root)
    assert audit_store(spark, str(root)) == findings(root)


@pytest.mark.turns(4)
@pytest.mark.spark
def test_the_findings_of_audit_are_a_dataframe_with_counts(spark: Any, tmp_path: Path) -> None:
    root = copy_store(golden("normal").store, tmp_path / "store")
    for kind in ("bad-crc", "missing-unit", "checkpoint-ahead"):
        DAMAGES[kind](root)
    found = findings(root)
    frame = findings_frame(spark, audit_store(spark, str(root)))
    assert frame.schema.simpleString() == (
        "struct<kind:string,file:string,offset:bigint,topic:string,queue_id:int,count:bigint,detail:string>"
    )
    assert [tuple(row) for row in frame.collect()] == [tuple(getattr(f, c) for c in frame.columns) for f in found]
    counts = {row.kind: row.n for row in frame.groupBy("kind").agg({"count": "sum"}).toDF("kind", "n").collect()}
    assert counts == {kind: sum(f.count for f in found if f.kind == kind) for kind in {f.kind for f in found}}
    assert counts["missing-unit"] > 1


@pytest.mark.turns(3)
@pytest.mark.spark
def test_a_healthy_store_makes_a_dataframe_without_rows(spark: Any) -> None:
    assert findings_frame(spark, audit_store(spark, str(golden("normal").store))).count() == 0
