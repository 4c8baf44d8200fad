"""A function over a list: every element in a Spark task of its own, the results in the list's order."""

from __future__ import annotations

from typing import Any

import pytest

from store.spark.tasks import map_tasks

pytestmark = pytest.mark.spark


def number_and_task(number: int) -> tuple[int, int]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return number, context.partitionId()


def test_every_share_is_a_task_and_they_start_in_their_order(spark: Any) -> None:
    assert list(map_tasks(spark, number_and_task, range(13))) == [(n, n) for n in range(13)]


def test_no_shares_are_no_tasks() -> None:
    assert list(map_tasks(None, number_and_task, [])) == []
