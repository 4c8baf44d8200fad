"""A function over a list: every element in a Spark task of its own, the results in the list's order."""

from __future__ import annotations

from typing import Any

import pytest

from store.query.spark.tasks import LOCAL_PARTITIONS, map_tasks

pytestmark = pytest.mark.spark


def number_and_task(number: int) -> tuple[int, int]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return number, context.partitionId()


# From this size on Spark keeps a table in another form.
SPARKS_LIMIT = "spark.sql.execution.arrow.localRelationThreshold"


@pytest.mark.parametrize("limit", ["48MB", "0"])
def test_every_share_is_a_task_and_they_start_in_their_order(spark: Any, limit: str) -> None:
    before = spark.conf.get(SPARKS_LIMIT)
    spark.conf.set(SPARKS_LIMIT, limit)
    try:
        assert list(map_tasks(spark, number_and_task, range(13))) == [(n, n) for n in range(13)]
    finally:
        spark.conf.set(SPARKS_LIMIT, before)


def test_the_session_keeps_its_number_of_partitions(spark: Any) -> None:
    spark.conf.set(LOCAL_PARTITIONS, 3)
    try:
        assert list(map_tasks(spark, number_and_task, range(2))) == [(0, 0), (1, 1)]
        assert spark.conf.get(LOCAL_PARTITIONS) == "3"
    finally:
        spark.conf.unset(LOCAL_PARTITIONS)


def test_no_shares_are_no_tasks() -> None:
    assert list(map_tasks(None, number_and_task, [])) == []
