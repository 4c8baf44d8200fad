"""Runs check, with its work on files in Spark tasks.

Functions and inputs are those of a local check, so the findings are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from store.files.store_reader import StoreReader
from store.query.spark.job import Progress, errors_as_sentences, watched
from store.query.spark.tasks import map_tasks
from store.query.tables.schema import ANOMALIES, ddl
from store.structures.findings import Finding, by_place
from store.verbs.check.check import check_files
from store.verbs.check.options import CheckOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULT_OPTIONS = CheckOptions()


def audit_store(
    spark: SparkSession, address: str, options: CheckOptions = DEFAULT_OPTIONS, progress: Progress | None = None
) -> list[Finding]:
    """Return all findings, sorted by file and offset."""
    files = StoreReader(address)
    files.check_is_store()
    with errors_as_sentences(), watched(spark, progress):
        findings = list(check_files(files, options, map_tasks=partial(map_tasks, spark)))
    return sorted(findings, key=by_place)


def findings_frame(spark: SparkSession, findings: Sequence[Finding]) -> DataFrame:
    """Return findings as a DataFrame with the columns of the table `anomalies`.

    Unlike the table, it includes findings between segments.
    """
    rows = [tuple(getattr(finding, name) for name in ANOMALIES) for finding in findings]
    return spark.createDataFrame(rows, ddl(ANOMALIES))
