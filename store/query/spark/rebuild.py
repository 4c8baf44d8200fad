"""rebuild on Spark: consume queues and index from the log, into a staging folder.

    1. gather   every part of every segment is walked once: its units and keys go to a scratch file, and the driver
                gets their places in it, their queue offsets and the end of the walk
    2. plan     the driver knows the log's valid end, the files there will be, and who has the bytes of each
    3. write    a task writes a file from its pieces, or several small files; the index files, which are large, first

    part -> scratch file of the part: (queue | keys, log offset) -> plan -> one task reads the pieces of its file

The pieces go through the staging folder, not through Spark's shuffle. The folder must be the same path on every
executor anyway (local, or a shared mount): there every byte goes from Python through the JVM to disk and back.

A task writes its files from their beginning, so a retried task writes the same bytes; the staging folder is not read
before the job is over.
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
from store.verbs.rebuild.scope import RebuildReport, RebuildScope

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A walk goes through so much in a third of a second; a task costs some 50 ms by itself.
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

    The log ends at the first thing that is no record by the `rules`.
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
    faults = keep_expired_ends(files, staging, scope, fs)
    return RebuildReport(end.log_end, end.describe(), end.record_count, tuple(faults))


def _write_files(spark: SparkSession, fs: Filesystem, shares: Sequence[Share]) -> None:
    """Write every file."""
    for folder in {share.path.parent for share in shares}:
        fs.make_folder(folder)
    for _ in map_tasks(spark, _write_shares, plan_tasks(shares)):
        pass


def _write_shares(shares: Sequence[Share]) -> int:
    return sum(share.write() for share in shares)
