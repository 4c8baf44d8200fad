"""backup restore on Spark: a task writes a segment, then queues and index are built as by rebuild."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.formats.backup_manifest import BackedFile
from store.layout import StoreLayout
from store.opened.detect import refuse_unchangeable
from store.query.spark.job import errors_as_sentences
from store.query.spark.rebuild import rebuild_on_spark
from store.query.spark.tasks import map_tasks
from store.structures.registry import SPARK
from store.verbs.backup.segments import SegmentWriter
from store.verbs.rebuild.scope import RebuildReport, RebuildScope

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class RestoreTasks:
    """The tasks of a restore on Spark; its folders must have the same paths on every executor."""

    def __init__(self, spark: SparkSession, now_ms: int) -> None:
        self._spark, self._now_ms = spark, now_ms

    def write(self, writer: SegmentWriter, segments: Sequence[Sequence[BackedFile]]) -> None:
        """Write every segment."""
        with errors_as_sentences():
            for _ in map_tasks(self._spark, writer, segments):
                pass

    def rebuild(self, root: Path, config: StoreConfig, scope: RebuildScope) -> RebuildReport:
        """Build queues and index; UnsupportedFormat for structures that Spark tasks can't build."""
        refuse_unchangeable(StoreLayout(root), Filesystem(), SPARK)
        return rebuild_on_spark(self._spark, str(root), root, config, scope, now_ms=self._now_ms)
