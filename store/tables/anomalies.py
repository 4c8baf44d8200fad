"""The table `anomalies`: what store.check finds in files and segments, as rows; not what lies between segments.

A share is a list of findings that the planning made, or a segment with the files that may point into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from store.check.check import CheckOptions
from store.check.coverage import check_derived, derived_files, segment_list_findings
from store.check.findings import Finding
from store.check.segment import check_segment, derived_of
from store.disk.store_reader import StoreReader


def plan_anomalies(files: StoreReader) -> list[Any]:
    """The shares. Queues and index files are surveyed here; for stores of many queues `audit` does it in tasks."""
    segments = files.segments()
    found = [one for file in derived_files(files) for one in check_derived(files, file, segments)]
    surveys = [one for one in found if not isinstance(one, Finding)]
    direct = [*segment_list_findings(files, segments), *(one for one in found if isinstance(one, Finding))]
    return [direct, *((segment, derived_of(segment, surveys)) for segment in segments)]


def read_anomalies(files: StoreReader, share: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """A share's findings as one batch."""
    findings: list[Finding] = share if isinstance(share, list) else _check(files, *share)
    rows = [{name: getattr(finding, name) for name in schema.names} for finding in findings]
    yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _check(files: StoreReader, segment: Any, derived: Any) -> list[Finding]:
    findings, _ = check_segment(files, segment, derived, CheckOptions().delay_levels_ms)
    return findings
