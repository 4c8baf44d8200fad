"""check: the log against the queues, the index and the checkpoint, in both directions. Reads only.

    1. listing   all files, and foreign files among them                             (listing.py)
    2. surveys   every queue file and index file alone, the list of segments         (survey.py, coverage.py)
    3. segments  one walk of each segment, with CRCs; on the way each stretch of log is compared with the units and
                 entries that point into it: a difference, or a unit or entry on one side only, is a finding
                 (segment.py, units.py, entries.py)
    4. between   faults between segments, and of the checkpoint                      (seams.py, promises.py)

Every step is a function of its inputs and returns values. `map_tasks` runs steps 2 and 3 on many files: in threads for
`check`, as Spark tasks for `audit`. While a writer holds the store, the log is checked up to a horizon (writer.py).
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from store.config import StoreConfig
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.files.store_reader import StoredFile, StoreReader
from store.formats.given import check_kind
from store.opened.arguments import checks_arguments
from store.opened.delays import (
    DELAY_LEVELS,
    describe_inferred_delays,
    describe_mixed_delays,
    levels_of,
    read_delays,
)
from store.opened.detect import detect_line, finds_light, holds_light, lacks_light_files, make_layout, newer_structures
from store.opened.sizes import SEGMENT_SIZE
from store.structures.checked import CheckedStore
from store.structures.checkpoint.files import confirmed_offset, had_records
from store.structures.commitlog.segment_list import segment_list_findings
from store.structures.consumequeue.dispatch_faults import gather_without_files
from store.structures.consumequeue.survey import QueueFile, survey_queues
from store.structures.findings import (
    CHECKPOINT_INVALID,
    KINDS,
    LOST_INDEX,
    MISSING_INDEX_ENTRY,
    MISSING_UNIT,
    NEWER,
    TOPIC_ATTRIBUTE,
    UNKNOWN_NAME,
    Finding,
    group_findings,
)
from store.structures.index.survey import IndexFile, survey_index
from store.structures.registry import STRUCTURES, Names, names_of, present, rooms_with, unknown_names
from store.structures.tables import refused_attributes
from store.verbs.check.coverage import LogExtent, blank_findings, lost_log_findings, outside_findings
from store.verbs.check.listing import Listing, Share
from store.verbs.check.options import WHOLE, CheckOptions, Progress
from store.verbs.check.parallel import MapTasks, ordered_map
from store.verbs.check.promises import checkpoint_file_findings, promise_findings
from store.verbs.check.seams import SegmentSummary, lost_index_findings, seam_findings
from store.verbs.check.segment import Derived, OnWalked, SegmentRules, Surveys, check_segment
from store.verbs.check.view import open_as_it_is
from store.verbs.check.writer import has_writer, settled_horizon

Survey = QueueFile | IndexFile
_BLAMED = ((MISSING_UNIT, "logics"), (MISSING_INDEX_ENTRY, "index"), (LOST_INDEX, "index"))
"""Findings that explain a checkpoint ahead of the files, each with the checkpoint's field."""
_DERIVED_LOST = {MISSING_UNIT, MISSING_INDEX_ENTRY, LOST_INDEX, CHECKPOINT_INVALID}
"""Findings in every log without queues, index and checkpoint."""


def finding_kinds() -> list[str]:
    """Return the kinds of findings of all structures."""
    for one in STRUCTURES:
        one.furniture("check")
    return sorted(KINDS)


def check_files(
    files: StoreReader,
    options: CheckOptions = WHOLE,
    progress: Progress | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    map_tasks: MapTasks | None = None,
) -> Iterator[Finding]:
    """Yield findings as they are found: of the files, of each segment, between segments."""
    return _Check(files, options, progress or Progress(), on_progress, map_tasks).run()


@checks_arguments
def check(root: str | Path, options: CheckOptions = WHOLE) -> Iterator[Finding]:
    """Check the store at `root` and yield findings as they are found; a sound store has none.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from store import Message, check, open_store
    >>> root = Path(tempfile.mkdtemp()) / "store"
    >>> with open_store(root, read_only=False) as store:
    ...     result = store.put(Message.of("Orders", "hello"))
    >>> (root / "checkpoint").unlink()
    >>> [finding.kind for finding in check(root)]
    ['checkpoint-invalid']

    Raises NotAStore, ForeignFile, UnsupportedFormat, StoreIOError.
    """
    check_kind("options", options, CheckOptions)
    files = StoreReader(str(root))
    files.check_is_store()
    return check_files(files, options)


class _Check:
    """One check: its inputs, and the surveys and summaries that its later steps need."""

    def __init__(
        self,
        files: StoreReader,
        options: CheckOptions,
        progress: Progress,
        on_progress: Callable[[Progress], None] | None,
        map_tasks: MapTasks | None,
    ) -> None:
        self.files = files
        self.options = options
        self.progress = progress
        self.on_progress = on_progress
        self.map_tasks = map_tasks or partial(ordered_map, threads=options.threads)
        # Tasks elsewhere report nothing before their results.
        self.check_share = partial(check_share, on_walked=self._note) if map_tasks is None else check_share
        self.walked: dict[int, int] = {}
        self.deadline = None if options.max_seconds is None else time.monotonic() + options.max_seconds
        self.is_written_to = has_writer(files)
        if self.is_written_to:
            # The files are listed again below, as the writer may create some meanwhile.
            progress.horizon = settled_horizon(files, Listing.of(files, options.settings).queues)
        self.listing = Listing.of(files, options.settings)
        self.segments = self.listing.segments
        root, fs = files.tree
        self.layout = layout = make_layout(root, options.settings)
        self.settings = {**self._delays(fs), **options.settings}
        has_light = any(one.shares_records for one in present(names_of(layout, fs)))
        of_records = finds_light(layout, options.settings, fs)
        is_named = options.config.enable_multi_dispatch and not holds_light(layout, options.config, fs)
        self.shares_records = is_named or has_light or of_records
        self.store = CheckedStore(
            files,
            layout,
            fs,
            detect_line(layout, fs),
            self.settings,
            partial(open_as_it_is, layout, options.settings, fs=fs),
            horizon=progress.horizon,
            confirmed=confirmed_offset(files),
            knows_delays=DELAY_LEVELS in options.settings,
        )
        self.gathers = of_records and lacks_light_files(layout, self.store.line, fs)
        self.surveys: list[Survey] = []
        self.seams: list[SegmentSummary] = []
        self.kinds: set[str] = set()

    def _delays(self, fs: Filesystem) -> dict[str, object]:
        """Return messageDelayLevel as entries show it, and note that; a part of a store is checked without."""
        given, is_whole = self.options.settings, self.options.sample_percent == 100 and not self.options.from_offset
        if self.files.is_segment or not is_whole or DELAY_LEVELS in given:
            return {}
        found = read_delays(self.layout, fs)
        levels = levels_of(found)
        shown: dict[str, object] = {} if levels is None else {DELAY_LEVELS: levels}
        inferred = describe_inferred_delays(StoreConfig().with_settings(shown), given)
        self.progress.remarks = (*inferred, *describe_mixed_delays(found))
        return shown

    def run(self) -> Iterator[Finding]:
        """Yield the findings; a single segment or a backup reports no lost derived files."""
        of_store = self._steps()
        return (one for one in of_store if one.kind not in _DERIVED_LOST) if self.files.holds_log_alone else of_store

    def _steps(self) -> Iterator[Finding]:
        """Run the steps of the module's docstring, and yield their findings."""
        require_within(self.files, self.segments, self.options.from_offset)
        size = int(self.options.settings.get(SEGMENT_SIZE, 0))
        of_segments = segment_list_findings(self.files, self.listing.log, size)
        of_checkpoint = checkpoint_file_findings(self.files)
        of_files = group_findings([*self.listing.findings, *of_segments, *of_checkpoint, *self._of_layout()])
        rooms = self._rooms()
        owners = {room: room.owned_by(self.store) for room in rooms if hasattr(room, "owned_by")}
        found = gather_without_files(self._check_files()) if self.gathers else self._check_files()
        sources = [(None, chain(of_files, found)), *((room, room.check(self.store)) for room in rooms)]
        for source, findings in sources:
            for finding in findings:
                if not any(owns(finding) for room, owns in owners.items() if room is not source):
                    yield finding

    def _rooms(self) -> list[ModuleType]:
        """Import the check of each structure that the store's files or settings show."""
        settings = {} if self.files.holds_log_alone else self.options.config.changed_settings()
        return list(rooms_with(Names.of_files(self.files), "check", "check", settings=settings))

    def _of_layout(self) -> Iterator[Finding]:
        """Yield findings on structures of newer brokers, and on attributes that 5.3 refuses."""
        if self.files.is_segment:
            return
        fs = self.store.fs
        for path, found in newer_structures(self.layout, fs):
            yield Finding(NEWER, str(path), 0, detail=found)
        for name in unknown_names(names_of(self.layout, fs)):
            yield Finding(UNKNOWN_NAME, self.files.name_of(name), 0, detail="changes leave it as it is")
        for topic, clause in refused_attributes(self.layout.config, fs).items():
            table = self.files.name_of("config/topics.json")
            yield Finding(TOPIC_ATTRIBUTE, table, 0, topic, detail=f"{clause}; set it with the broker stopped")

    def _check_files(self) -> Iterator[Finding]:
        chosen = [s for s in self.segments if is_chosen(s, self.options)]
        self.progress.bytes_in_all = sum(segment.size for segment in chosen)
        # A walk may fill the hole that is asked for here, by mapping it.
        sizes = {segment.number: self._written_size(segment) for segment in chosen}
        self.progress.to_walk = sum(sizes.values())
        self._note()
        survey = partial(survey_share, self.files, self.listing_rules())
        for found in self.map_tasks(survey, self.listing.shares()):
            self.surveys += found.surveys
            yield from found.findings
        yield from self._walk(chosen, sizes)
        yield from self._close()

    def listing_rules(self) -> SurveyRules:
        """Make the rules for the survey of a share."""
        newest = self.listing.indexes[-1].path if self.is_written_to and self.listing.indexes else None
        listing = self.listing
        return SurveyRules(
            listing.queue_file_size, listing.index_geometries, listing.log, newest, self.progress.horizon
        )

    def _written_size(self, segment: StoredFile) -> int:
        """Return the segment's size; of the last one without the hole at its end."""
        if self.on_progress is None or segment is not self.segments[-1]:
            return segment.size
        return self.files.written_end(segment.path)

    def _note(self, walked: Mapping[int, int] = {}) -> None:
        """Take the bytes walked of segments, and report them; from several threads."""
        self.walked |= walked
        self.progress.walked = sum(list(self.walked.values()))
        if self.on_progress is not None:
            self.on_progress(self.progress)

    def _walk(self, chosen: Sequence[StoredFile], sizes: Mapping[int, int]) -> Iterator[Finding]:
        surveys = Surveys(self.surveys)
        shares = ((s, surveys.of_segment(s)) for s in self._in_time(chosen))
        work = partial(self.check_share, self.files, self._rules())
        for segment, findings, seam in self.map_tasks(work, shares):
            yield from findings
            self.kinds |= {finding.kind for finding in findings}
            self.seams.append(seam)
            self.progress.bytes_done += segment.size
            self._note({segment.number: sizes[segment.number]})

    def _rules(self) -> SegmentRules:
        of_store = self.store
        return SegmentRules(
            of_store.delay_levels_ms,
            of_store.horizon,
            self.shares_records,
            of_store.confirmed,
            self._is_indexed(),
            of_store.knows_delays,
        )

    def _in_time(self, chosen: Sequence[StoredFile]) -> Iterator[StoredFile]:
        for segment in chosen:
            if self.deadline is not None and time.monotonic() >= self.deadline:
                self.progress.stopped_at = segment.number
                return
            yield segment

    def _close(self) -> Iterator[Finding]:
        """Yield findings between segments, and of the checkpoint if the walk reached the log's end."""
        if self.seams:
            self.seams = [*seams_before(self.files, self.segments, self.options, self._rules()), *self.seams]
        yield from group_findings(seam_findings(self.files, self.segments, self.seams))
        lost_index = list(lost_index_findings(self.files, self.seams)) if self._is_indexed() else []
        yield from lost_index
        self.kinds |= {finding.kind for finding in lost_index}
        if SEGMENT_SIZE not in self.options.settings:
            yield from blank_findings(self.files, self.listing.log, self.seams)
        if not self.is_written_to and self._reaches_the_end():
            lost = {field for kind, field in _BLAMED if kind in self.kinds}
            yield from promise_findings(self.files, self.segments, self.seams, self.surveys, lost)
            if not any(seam.record_count for seam in self.seams) and had_records(self.files):
                yield from lost_log_findings(self.files, self.listing.queues, self.segments)

    def _is_indexed(self) -> bool:
        return StoreConfig().with_settings(self.options.settings).writes_index_files

    def _reaches_the_end(self) -> bool:
        """Return whether the walk reached the log's end without a gap and met a record.

        A log whose segments were all walked needs no record.
        """
        walked = [seam.file_start for seam in self.seams]
        if walked != [segment.number for segment in self.segments[len(self.segments) - len(walked) :]]:
            return False
        return len(walked) == len(self.segments) or any(seam.record_count for seam in self.seams)


@dataclass(frozen=True, slots=True)
class SurveyRules:
    """The facts of the store for the survey of a share.

    written_index  the path of the index file that the writer appends to
    horizon        the log offset up to which the store is checked while a writer holds it
    """

    queue_file_size: int
    index_geometries: Mapping[int, Any]
    segments: Sequence[StoredFile]
    written_index: str | None = None
    horizon: int | None = None


@dataclass(frozen=True, slots=True)
class ShareSurvey:
    """The surveys of a share's files, and the findings in each file alone."""

    surveys: list[Survey]
    findings: list[Finding]


def survey_share(files: StoreReader, rules: SurveyRules, share: Share) -> ShareSurvey:
    """Survey one of Listing.shares(): some queues, or an index file."""
    log = LogExtent(rules.segments, rules.horizon)
    found: Iterator[Survey | Finding]
    if isinstance(share, StoredFile):
        is_written_to = share.path == rules.written_index
        found = survey_index(files, share, rules.index_geometries, is_written_to=is_written_to)
    else:
        found = survey_queues(files, share, rules.queue_file_size, log.start)
    surveys: list[Survey] = []
    findings: list[Finding] = []
    for one in found:
        if isinstance(one, Finding):
            findings.append(one)
        else:
            surveys.append(one)
    findings += outside_findings(files, surveys, log)
    return ShareSurvey(surveys, group_findings(findings))


def check_share(
    files: StoreReader,
    rules: SegmentRules,
    share: tuple[StoredFile, Derived],
    on_walked: OnWalked = lambda walked: None,
) -> tuple[StoredFile, list[Finding], SegmentSummary]:
    """Check a segment with the files that may point into it."""
    segment, derived = share
    return segment, *check_segment(files, segment, derived, rules, on_walked)


def is_chosen(segment: StoredFile, options: CheckOptions) -> bool:
    """Return whether the segment is in the sample, and ends after `from_offset`."""
    return segment.number + segment.size > options.from_offset and _is_sampled(segment, options)


def _is_sampled(segment: StoredFile, options: CheckOptions) -> bool:
    # A hash of the name, so that every run and every engine samples the same segments.
    return zlib.crc32(segment.path.encode()) % 10_000 < options.sample_percent * 100


def require_within(files: StoreReader, segments: Sequence[StoredFile], from_offset: int) -> None:
    """Refuse an offset at or past the end of the last segment: no segment would be checked."""
    end = segments[-1].number + segments[-1].size if segments else 0
    if from_offset and from_offset >= end:
        raise BadRequest(
            f"nothing to check from log offset {from_offset} on: the last segment ends at {end}",
            file=files.name_of("commitlog"),
        )


def seams_before(
    files: StoreReader, segments: Sequence[StoredFile], options: CheckOptions, rules: SegmentRules
) -> list[SegmentSummary]:
    """Summarise the segments before `from_offset`, back to the last one with records."""
    seams: list[SegmentSummary] = []
    for segment in reversed([s for s in segments if s.number + s.size <= options.from_offset]):
        if not _is_sampled(segment, options):
            break
        _, seam = check_segment(files, segment, Derived((), (), has_index=True), rules)
        seams.insert(0, seam)
        if seam.record_count:
            break
    return seams
