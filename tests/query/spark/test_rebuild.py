"""Rebuilding by Spark, by the local engine, and what the real broker wrote: the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from store.verbs.rebuild.scope import RebuildScope
from tests.support.golden import golden
from tests.support.quickly import one_of
from tests.support.spark_stores import by_spark, digests, locally
from tests.verbs.rebuild.stores import expired_store


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
