"""rebuild on Spark: consume queues and index from the log, into a staging folder.

    1. gather   every part of every segment is scanned once: its units and keys go to a scratch file, and the driver
                gets their positions, their queue offsets and the end of the scan
    2. plan     the driver finds the log's valid end, the files to write, and the pieces of each file
    3. write    a task writes a file from its pieces, or several small files; the large index files are first

    part -> scratch file of the part: (queue | keys, log offset) -> plan -> one task reads the pieces of its file

The pieces go through the staging folder, as Spark's shuffle would move every byte from Python through the JVM to disk
and back. The folder must have the same path on every executor anyway (local, or a shared mount).
A task writes its files from their beginning, so a retried task writes the same bytes. Nothing reads the result before
the job ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.layout import StoreLayout
from store.query.spark.job import errors_as_sentences
from store.query.spark.pieces import Gatherer
from store.query.spark.rebuild_plan import plan_shares, plan_tasks, valid_parts
from store.query.spark.tasks import map_tasks
from store.query.spark.writers import Share
from store.structures.commitlog.scan import VERIFYING, ScanRules
from store.structures.commitlog.slices import split, split_into
from store.verbs.rebuild.expired import keep_expired_ends
from store.verbs.rebuild.local import describe_lost
from store.verbs.rebuild.scope import RebuildReport, RebuildScope

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A scan of so many bytes takes a third of a second; a task alone costs some 50 ms.
PART_BYTES = 512 << 20


def rebuild_on_spark(
    spark: SparkSession,
    address: str,
    staging: Path,
    config: StoreConfig,
    scope: RebuildScope,
    *,
    now_ms: int,
    rules: ScanRules = VERIFYING,
    parts_per_segment: int | None = None,
) -> RebuildReport:
    """Build the scope's files under `staging`, laid out like a store; the store itself is only read.

    The log ends at the first bytes that are no record by the `rules`.
    """
    files = StoreReader(address)
    files.check_is_store()
    segments = files.segments()
    parts = split_into(segments, parts_per_segment) if parts_per_segment else split(segments, PART_BYTES)
    scratch = staging.absolute() / "pieces"
    fs = Filesystem()
    fs.make_folder(scratch)
    with errors_as_sentences():
        gather = Gatherer(address, scratch, scope, config.delay_levels_ms, rules)
        live, end = valid_parts(list(map_tasks(spark, gather, parts)), gather)
        _write_files(spark, fs, plan_shares(live, StoreLayout(scratch.parent), config, scope, now_ms))
    fs.remove_tree(scratch)
    attributes = {topic: needed for part in live for topic, needed in part.attributes.items()}
    faults = (*describe_lost(attributes), *keep_expired_ends(files, staging, scope, fs))
    return RebuildReport(end.log_end, end.describe(), end.record_count, faults, end.last_record)


def _write_files(spark: SparkSession, fs: Filesystem, shares: Sequence[Share]) -> None:
    """Write every file."""
    for folder in {share.path.parent for share in shares}:
        fs.make_folder(folder)
    for _ in map_tasks(spark, _write_shares, plan_tasks(shares)):
        pass


def _write_shares(shares: Sequence[Share]) -> int:
    return sum(share.write() for share in shares)
