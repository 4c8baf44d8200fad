"""sql and export: the tables of one store or of a fleet as Spark views, and a query's answer as rows or files.

Views: messages, consumequeue, index, segments, anomalies. With several stores each has a column `store` in front.
A view holds the columns that the query's text may mean: see store.tables.query_text.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from store.disk.filesystem import os_errors
from store.disk.store_reader import StoreReader
from store.errors import BadRequest
from store.spark.described import to_json_row, unique_names
from store.spark.session import Progress, errors_as_sentences, watched
from store.tables.query_text import check_is_query, columns_named, tables_named
from store.tables.schema import TABLES, ddl

FORMATS = ("parquet", "jsonl", "csv")
_SPARK_FORMAT = {"parquet": "parquet", "jsonl": "json", "csv": "csv"}
# Quotes doubled, as RFC 4180 has them, and blanks kept; Spark's own ways are others.
_CSV = {"header": "true", "escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}


def register_views(spark: Any, stores: Sequence[str], *, columns_of: str, tables_of: str) -> None:
    """Makes the tables that one text names known to Spark, with the columns that the other may mean."""
    for table in tables_named(tables_of):
        fleet_frame(spark, stores, table, columns_named(columns_of, table)).createOrReplaceTempView(table)


def fleet_frame(spark: Any, stores: Sequence[str], table: str, columns: dict[str, str]) -> Any:
    """One table of all stores; the column `store` tells them apart where there are several."""
    from pyspark.sql.functions import lit

    frames = []
    for store in stores:
        StoreReader(store).check_is_store()
        reader = spark.read.format("rocketmq").option("table", table).schema(ddl(columns))
        frame = reader.load(StoreReader(store).address)
        frames.append(frame.select(lit(store).alias("store"), "*") if len(stores) > 1 else frame)
    return reduce(lambda a, b: a.unionByName(b), frames)


def query(
    spark: Any, stores: Sequence[str], text: str, *, limit: int, progress: Progress | None = None
) -> tuple[list[str], list[dict[str, Any]]]:
    """Names of the columns, and the first `limit` rows of the answer, with values as JSON has them."""
    check_is_query(text)
    with errors_as_sentences(), watched(spark, progress):
        answer = _ask(spark, stores, text)
        kind = answer.schema
        rows = answer.limit(limit).collect()
    return unique_names(kind.names), [to_json_row(row, kind) for row in rows]


def _ask(spark: Any, stores: Sequence[str], text: str) -> Any:
    """The answer as a DataFrame."""
    register_views(spark, stores, columns_of=text, tables_of=text)
    try:
        answer = spark.sql(text)
        answer.schema  # noqa: B018 - over Connect the query is looked at now, not before
    except Exception:
        # Asked over all columns it is refused with better advice: what Spark suggests are columns of the views.
        register_views(spark, stores, columns_of="*", tables_of=text)
        answer = spark.sql(text)
    return answer


def export(
    spark: Any,
    stores: Sequence[str],
    target: Path,
    kind: str,
    *,
    where: str | None = None,
    partition_by: Sequence[str] = (),
    with_body: bool = True,
    progress: Progress | None = None,
) -> None:
    """The messages as files under `target`, which must not exist: it appears when everything is written."""
    check_export(target, kind, partition_by, with_body=with_body, store_count=len(stores))
    columns = _exported(with_body)
    with os_errors(target.parent, "create the folder"):
        target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_name(f".{target.name}.part")
    shutil.rmtree(staged, ignore_errors=True)  # of an export that was killed
    try:
        with errors_as_sentences(), watched(spark, progress):
            frame = _chosen(fleet_frame(spark, stores, "messages", columns), where, partition_by)
            writer = (_flat(frame) if kind == "csv" else frame).write.format(_SPARK_FORMAT[kind])
            writer = writer.options(**_CSV) if kind == "csv" else writer
            (writer.partitionBy(*partition_by) if partition_by else writer).save(str(staged.absolute()))
        staged.rename(target)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def check_export(
    target: Path, kind: str, partition_by: Sequence[str], *, with_body: bool = True, store_count: int = 1
) -> None:
    """BadRequest for what can be known to fail before Spark is started."""
    if kind not in FORMATS:
        raise BadRequest(f"no export is called {kind!r}", hint=", ".join(FORMATS))
    if re.match(r"[A-Za-z][\w+.-]*:/", str(target)):  # a Path has s3:/ for s3://
        raise BadRequest(f"an export goes to a folder of this machine, not to {target}", hint="name a local folder")
    if target.exists():
        raise BadRequest("there is something already", file=target, hint="name a folder that does not exist")
    known = [name for name, kind in _exported(with_body).items() if kind.isidentifier() and kind != "binary"]
    known += ["day", "store"] if store_count > 1 else ["day"]
    unknown = sorted(set(partition_by) - set(known))
    if unknown:
        raise BadRequest(f"cannot partition by {', '.join(unknown)}", hint=f"what can be: {', '.join(known)}")
    if len(set(partition_by)) < len(partition_by):
        raise BadRequest("a column to partition by is named twice")


def _exported(with_body: bool) -> dict[str, str]:
    return {name: kind for name, kind in TABLES["messages"].items() if with_body or name != "body"}


def _chosen(frame: Any, where: str | None, partition_by: Sequence[str]) -> Any:
    """The messages asked for; `day` can be asked for, and stays where it is partitioned by."""
    from pyspark.sql.functions import date_format

    frame = frame.withColumn("day", date_format("store_timestamp", "yyyy-MM-dd"))
    frame = frame.where(where) if where else frame
    return frame if "day" in partition_by else frame.drop("day")


def _flat(frame: Any) -> Any:
    """For CSV: bytes as base64, and lists and maps as JSON."""
    from pyspark.sql.functions import base64, col, regexp_replace, to_json

    in_one_line = regexp_replace(base64(col("body")), r"\s", "")
    changes = {"body": in_one_line, "keys": to_json("keys"), "properties": to_json("properties")}
    return frame.withColumns({name: made for name, made in changes.items() if name in frame.columns})
