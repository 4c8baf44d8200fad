"""audit: store.check's steps as Spark tasks, and their findings as a DataFrame.

    1. one task per queue and per index file    the surveys go to the driver, a few numbers per file
    2. one task per segment                     with the surveys of the files that point into it
    3. the driver puts the segments' seams together

The functions are those of the local check, with the same inputs; therefore the findings are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from store.check.check import CheckOptions, is_chosen, require_within, seams_before
from store.check.coverage import check_derived, derived_files, segment_list_findings
from store.check.findings import Finding
from store.check.seams import SegmentSummary, closing_findings
from store.check.segment import check_segment, derived_of
from store.check.survey import IndexFile, QueueFile
from store.disk.store_reader import StoredFile, StoreReader
from store.spark.session import Progress, errors_as_sentences, watched
from store.spark.tasks import in_tasks
from store.tables.schema import ANOMALIES, ddl

Survey = QueueFile | IndexFile
DEFAULT_OPTIONS = CheckOptions()


def audit(
    spark: Any, address: str, options: CheckOptions = DEFAULT_OPTIONS, progress: Progress | None = None
) -> list[Finding]:
    """All findings, sorted by file and offset."""
    files = StoreReader(address)
    files.check_is_store()
    segments = files.segments()
    require_within(files, segments, options.from_offset)
    findings = list(segment_list_findings(files, segments))
    with errors_as_sentences(), watched(spark, progress):
        surveys: list[Survey] = []
        for found in in_tasks(spark, derived_files(files), partial(_survey, address, segments)):
            findings += [f for f in found if isinstance(f, Finding)]
            surveys += [f for f in found if not isinstance(f, Finding)]
        chosen = [segment for segment in segments if is_chosen(segment, options)]
        shares = [(segment, derived_of(segment, surveys)) for segment in chosen]
        seams: list[SegmentSummary] = []
        for of_segment, seam in in_tasks(spark, shares, partial(_check, address, options.delay_levels_ms)):
            findings += of_segment
            seams.append(seam)
    seams.sort(key=lambda seam: seam.file_start)
    if seams:
        seams = [*seams_before(files, segments, options), *seams]
    findings += closing_findings(files, segments, seams, [s for s in surveys if isinstance(s, IndexFile)])
    return sorted(findings, key=lambda f: (f.file, f.offset, *f.place, f.detail))


def findings_frame(spark: Any, findings: Sequence[Finding]) -> Any:
    """Findings as a DataFrame with the columns of the table `anomalies`, which lacks what lies between segments."""
    rows = [tuple(getattr(finding, name) for name in ANOMALIES) for finding in findings]
    return spark.createDataFrame(rows, ddl(ANOMALIES))


def _survey(address: str, segments: Sequence[StoredFile], share: Any) -> list[Survey | Finding]:
    return check_derived(StoreReader(address), share, segments)


def _check(address: str, delay_levels_ms: tuple[int, ...], share: Any) -> tuple[list[Finding], SegmentSummary]:
    segment, derived = share
    return check_segment(StoreReader(address), segment, derived, delay_levels_ms)
