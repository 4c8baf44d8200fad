"""Maps a function over a list with one Spark task per element; elements and results are pickled.

The map uses mapInArrow instead of an RDD, so that it also works over Spark Connect.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from store.files.lost_pages import catch_lost_pages, settle_lost_pages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARE_SCHEMA = "number bigint, share binary"
SHARE_ARROW = pa.schema([("number", pa.int64()), ("share", pa.binary())])
MOST_TASKS = 100_000
LOCAL_PARTITIONS = "spark.sql.leafNodeDefaultParallelism"


Item = TypeVar("Item")
Answer = TypeVar("Answer")


def map_tasks(spark: SparkSession, work: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
    """Return `work(item)` of every item, in the order of the items."""
    shares = list(items)
    if shares:
        with _partitions(spark, min(len(shares), MOST_TASKS)):
            rows = _share_frame(spark, shares).mapInArrow(partial(run_task, work), SHARE_SCHEMA).collect()
        for row in sorted(rows, key=lambda row: row.number):
            yield pickle.loads(row.share)


@contextmanager
def _partitions(spark: SparkSession, count: int) -> Iterator[None]:
    """Make Spark divide a local table into so many partitions, instead of one per core.

    Repartitioning the table would need a job for samples and a shuffle.
    """
    before = spark.conf.get(LOCAL_PARTITIONS, None)
    spark.conf.set(LOCAL_PARTITIONS, count)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(LOCAL_PARTITIONS)
        else:
            spark.conf.set(LOCAL_PARTITIONS, before)


def _share_frame(spark: SparkSession, shares: Sequence[object]) -> DataFrame:
    """Return the shares as a DataFrame, in order.

    Spark makes a partition of each batch of a large table, so each batch has one partition's shares.
    """
    columns = {"number": range(len(shares)), "share": [pickle.dumps(share) for share in shares]}
    batches = pa.table(columns, SHARE_ARROW).to_batches(max_chunksize=-(-len(shares) // MOST_TASKS))
    return spark.createDataFrame(pa.Table.from_batches(batches))


def _shares_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    """Yield number and share of every row."""
    for batch in batches:
        for number, share in zip(batch.column("number"), batch.column("share"), strict=True):
            yield number.as_py(), pickle.loads(share.as_py())


def run_task(work: Callable[[Item], Answer], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the results of every share, in a worker."""
    return whole(_answer(number, pickle.dumps(work(share))) for number, share in _shares_of(batches))


def _answer(number: int, share: bytes) -> pa.RecordBatch:
    """Return a batch of one row, made of buffers, as Arrow imports Pandas to convert a list."""
    numbers = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(np.array([number]))])
    ends = pa.py_buffer(np.array([0, len(share)], np.int32))
    shares = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(share)])
    return pa.RecordBatch.from_arrays([numbers, shares], schema=SHARE_ARROW)


def whole(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches, in a worker; StoreIOError for an unreported lost page."""
    _catch_lost_pages()
    for batch in batches:
        _require_pages()
        yield batch
    _require_pages()
    _spare_modules()


def _require_pages() -> None:
    for error in settle_lost_pages():
        raise error


@cache
def _catch_lost_pages() -> None:
    """Let the worker survive lost pages."""
    catch_lost_pages()


@cache
def _spare_modules() -> None:
    """Freeze the imports of the worker's first task, so that garbage collection skips them.

    A worker collects after each task; with Pandas imported this saves 18 ms of 20.
    """
    gc.freeze()
