"""check and audit: silent on healthy stores, and the same words for every kind of damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from store.query.spark.audit import audit_store, findings_frame
from tests.support.golden import copy_store, golden
from tests.support.quickly import one_of
from tests.support.spark_stores import DAMAGES, findings


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
