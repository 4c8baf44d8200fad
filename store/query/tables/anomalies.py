"""Reads the table `anomalies`: the findings of a check as rows.

It has findings in files and in single segments; `audit` adds those between segments.
A share is a list of findings from planning, or a segment with the files that may point into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import pyarrow as pa

from store.config import StoreConfig
from store.files.store_reader import StoredFile, StoreReader
from store.structures.commitlog.segment_list import segment_list_findings
from store.structures.findings import Finding, group_findings
from store.verbs.check.check import SurveyRules, survey_share
from store.verbs.check.listing import Listing
from store.verbs.check.segment import Derived, SegmentRules, Surveys, check_segment

AnomalyShare: TypeAlias = list[Finding] | tuple[StoredFile, Derived]
"""Findings from planning, or a segment with the files that may point into it."""


def plan_anomalies(files: StoreReader) -> list[AnomalyShare]:
    """Divide the check into shares.

    Queues and index files are surveyed here, in one process; `audit` surveys them in tasks.
    """
    listing = Listing.of(files, {})
    rules = SurveyRules(listing.queue_file_size, listing.index_geometries, listing.log)
    found = [survey_share(files, rules, share) for share in listing.shares()]
    surveys = Surveys([survey for of_share in found for survey in of_share.surveys])
    direct = group_findings([*listing.findings, *segment_list_findings(files, listing.log)])
    direct += [finding for of_share in found for finding in of_share.findings]
    return [direct, *((segment, surveys.of_segment(segment)) for segment in listing.segments)]


def read_anomalies(files: StoreReader, share: AnomalyShare, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield a share's findings as one batch."""
    findings = share if isinstance(share, list) else _check(files, *share)
    rows = [{name: getattr(finding, name) for name in schema.names} for finding in findings]
    yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _check(files: StoreReader, segment: StoredFile, derived: Derived) -> list[Finding]:
    findings, _ = check_segment(files, segment, derived, SegmentRules(StoreConfig().delay_levels_ms))
    return findings
