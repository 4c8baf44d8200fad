"""Rebuilding by Spark, by the local engine, and what the real broker wrote: the same bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.opened.detect import infer_config, make_layout
from store.query.spark.rebuild import rebuild_on_spark
from store.verbs.rebuild.local import rebuild_locally
from store.verbs.rebuild.scope import RebuildReport, RebuildScope
from tests.support.golden import golden
from tests.support.quickly import one_of
from tests.verbs.rebuild.stores import expired_store

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


@pytest.mark.parametrize("name", ["normal", "many", "batch", "ipv6", "aborted", "normal5"])
def test_the_local_engine_writes_the_brokers_bytes(name: str, tmp_path: Path) -> None:
    locally(golden(name).store, tmp_path)
    assert digests(tmp_path) == digests(golden(name).store)


@pytest.mark.spark
@pytest.mark.parametrize(("name", "parts"), one_of(7, ["normal", "many"], [1, 2, 7]))
def test_spark_writes_the_brokers_bytes(spark: Any, name: str, parts: int, tmp_path: Path) -> None:
    by_spark(spark, golden(name).store, tmp_path, parts)
    assert digests(tmp_path) == digests(golden(name).store)


@pytest.mark.spark
@pytest.mark.parametrize("name", one_of(3, ["batch", "ipv6", "normal5", "preblank", "torn", "corrupt-mid"]))
def test_spark_writes_the_local_engines_bytes(spark: Any, name: str, tmp_path: Path) -> None:
    by_spark(spark, golden(name).store, tmp_path / "spark", 2)
    locally(golden(name).store, tmp_path / "local")
    assert digests(tmp_path / "spark") == digests(tmp_path / "local")


@pytest.mark.spark
def test_one_queue_alone_is_rebuilt(spark: Any, tmp_path: Path) -> None:
    scope = RebuildScope(index=False, topic="TopicA", queue_id=1)
    by_spark(spark, golden("normal").store, tmp_path / "spark", 2, scope)
    locally(golden("normal").store, tmp_path / "local", scope)
    queues, index = digests(tmp_path / "spark")
    assert digests(tmp_path / "local") == (queues, index)
    assert index == []
    assert {Path(name).parts[1:3] for name in queues} == {("TopicA", "1")}


@pytest.mark.spark
def test_a_queue_whose_messages_have_all_expired_keeps_its_end(spark: Any, tmp_path: Path) -> None:
    root, scope = expired_store(tmp_path / "store"), RebuildScope(index=False)
    by_spark(spark, root, tmp_path / "spark", 2, scope)
    locally(root, tmp_path / "local", scope)
    assert digests(tmp_path / "spark") == digests(tmp_path / "local")
    assert f"consumequeue/Old/0/{400:020d}" in digests(tmp_path / "spark")[0]
