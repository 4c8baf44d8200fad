"""sql and export on Spark: queries the tables of one or several stores, for rows or for files.

Views: messages, consumequeue, index, segments, anomalies. With several stores `store` is the first column of each.
A view has the columns that the query's text may refer to: see store.query.tables.query_text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from store.files.store_reader import StoreReader
from store.query.embedded.bound import check_binds, check_condition
from store.query.spark.damage import FOLDER
from store.query.spark.described import to_json_row
from store.query.spark.job import Progress, errors_as_sentences, watched
from store.query.tables.dialect import for_spark
from store.query.tables.export import DAY, PROBLEM, TIMES, Export, ToLine, published, require_to_line
from store.query.tables.json_values import Row, unique_names
from store.query.tables.query_text import check_is_query, columns_named, is_translated, tables_named
from store.query.tables.schema import OUTER, RECORD, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SPARK_FORMAT = {"parquet": "parquet", "jsonl": "text", "csv": "csv"}
# Doubled quotes as in RFC 4180, and blanks kept; Spark's defaults differ.
_CSV = {"header": "true", "escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}


def register_views(
    spark: SparkSession, stores: Sequence[str], *, columns_of: str, tables_of: str, outer: bool = False
) -> None:
    """Register the tables in `tables_of` as views, with the columns that `columns_of` may refer to."""
    for table in tables_named(tables_of):
        frame = fleet_frame(spark, stores, table, columns_named(columns_of, table), outer=outer)
        frame.createOrReplaceTempView(table)


def fleet_frame(
    spark: SparkSession, stores: Sequence[str], table: str, columns: dict[str, str], *, outer: bool = False
) -> DataFrame:
    """Return one table of all stores; with several stores the column `store` has each row's store.

    outer  a record of several messages is one row, instead of one row per message
    """
    from pyspark.sql.functions import lit

    frames = []
    for store in stores:
        StoreReader(store).check_is_store()
        reader = spark.read.format("rocketmq").option("table", table).schema(ddl(columns))
        reader = reader.option("outer", "true") if outer else reader
        folder = spark.conf.get(FOLDER, None)
        reader = reader.option("damageFolder", folder) if folder else reader
        frame = reader.load(StoreReader(store).address)
        frames.append(frame.select(lit(store).alias("store"), "*") if len(stores) > 1 else frame)
    return reduce(lambda a, b: a.unionByName(b), frames)


def run_query(
    spark: SparkSession,
    stores: Sequence[str],
    text: str,
    *,
    limit: int,
    progress: Progress | None = None,
    outer: bool = False,
) -> tuple[list[str], list[Row]]:
    """Return the columns' names and the first `limit` rows of the answer, with values as in JSON."""
    check_is_query(text)
    if is_translated(text):
        check_binds(text, is_fleet=len(stores) > 1)
    with errors_as_sentences(), watched(spark, progress):
        register_views(spark, stores, columns_of=text, tables_of=text, outer=outer)
        answer = spark.sql(for_spark(text) if is_translated(text) else text)
        kind = answer.schema
        rows = answer.limit(limit).collect()
    return unique_names(kind.names), [to_json_row(row, kind) for row in rows]


def write_export(
    spark: SparkSession,
    stores: Sequence[str],
    target: Path,
    export: Export,
    *,
    progress: Progress | None = None,
    outer: bool = False,
) -> None:
    """Write the messages as files under `target`; `target` must not exist."""
    with published(target) as folder, errors_as_sentences(), watched(spark, progress):
        columns = export.columns | ({RECORD: "binary"} if export.kind == "jsonl" else {})
        frame = _chosen(fleet_frame(spark, stores, "messages", columns, outer=outer), export)
        frame, report = _counted(frame, export)
        if export.kind == "jsonl":
            frame = _lines(frame, export)
        elif export.kind == "csv":
            frame = _flat(frame)
        writer = frame.write.format(_SPARK_FORMAT[export.kind])
        writer = writer.options(**_CSV) if export.kind == "csv" else writer
        (writer.partitionBy(*export.partition_by) if export.partition_by else writer).save(str(folder.absolute()))
        for path in folder.rglob("part-*.txt"):
            path.rename(path.with_suffix(".jsonl"))
    report()


def export_lines(spark: SparkSession, stores: Sequence[str], export: Export, *, outer: bool = False) -> Iterator[str]:
    """Yield the lines of an export as JSON lines with newlines, in log order within each part."""
    with errors_as_sentences():
        columns = export.columns | {RECORD: "binary"}
        frame = _chosen(fleet_frame(spark, stores, "messages", columns, outer=outer), export)
        inner = problems = 0
        told = [OUTER, *([PROBLEM] if export.with_body else [])]
        for line, around, *problem in _lines(frame, replace(export, partition_by=told)).toLocalIterator():
            inner += around is not None
            problems += any(problem)
            yield line + "\n"
    export.on_inner(inner)
    export.on_problems(problems)


def _counted(frame: DataFrame, export: Export) -> tuple[DataFrame, Callable[[], None]]:
    """Return the frame, and a function that calls on_inner and the like once the frame is written."""
    from pyspark.sql import Observation
    from pyspark.sql.functions import col, count_if

    seen = Observation()
    times = TIMES if export.kind != "jsonl" else ()
    null_times = [count_if(col(name).isNull()).alias(name) for name in times]
    of_bodies = [PROBLEM] if export.with_body else []
    problems = [count_if(col(name).isNotNull()).alias(name) for name in of_bodies]

    def report() -> None:
        counts = dict(seen.get)
        export.on_inner(counts.pop(OUTER))
        export.on_problems(counts.pop(PROBLEM, 0))
        export.on_null_times(counts)

    inner = count_if(col(OUTER).isNotNull()).alias(OUTER)
    return frame.observe(seen, inner, *problems, *null_times), report


def _chosen(frame: DataFrame, export: Export) -> DataFrame:
    """Return the selected messages; conditions may use `day`, and it stays only as a partition column."""
    from pyspark.sql.functions import date_format

    if export.where:
        check_condition(export.where, is_fleet="store" in frame.columns)
    frame = frame.withColumn(DAY, date_format("store_timestamp", "yyyy-MM-dd"))
    frame = frame.where(for_spark(export.where)) if export.where else frame
    frame = frame.limit(export.limit) if export.limit is not None else frame
    return frame if DAY in export.partition_by else frame.drop(DAY)


def _flat(frame: DataFrame) -> DataFrame:
    """Return the columns of a CSV: bytes as base64, lists and maps as JSON."""
    from pyspark.sql.functions import base64, col, regexp_replace, to_json

    binary = [name for name, kind in frame.dtypes if kind == "binary"]
    nested = [name for name, kind in frame.dtypes if kind.startswith(("array", "map"))]
    changes = {name: regexp_replace(base64(col(name)), r"\s", "") for name in binary}
    return frame.withColumns(changes | {name: to_json(name) for name in nested})


def _lines(frame: DataFrame, export: Export) -> DataFrame:
    """Return each record's JSON line, followed by the partition columns."""
    from pyspark.sql.functions import col

    frame = frame.select(RECORD, col(OUTER).alias("outer"), *export.partition_by)
    schema = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema.fields[2:])
    return frame.mapInArrow(partial(_to_lines, require_to_line(export)), f"line string{', ' if schema else ''}{schema}")


def _to_lines(to_line: ToLine, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        both = zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
        lines = pa.array(starmap(to_line, both), pa.string())
        names = ["line", *batch.schema.names[2:]]
        yield pa.RecordBatch.from_arrays([lines, *batch.columns[2:]], names=names)
