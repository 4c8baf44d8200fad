"""doctor: all faults of a store, the worst first.

    1. info      missing parts, and the holder of the lock                     info.py
    2. simulate  the next start of its broker line                             store/verbs/recover/simulate.py
    3. check     one walk of the whole log, with queues and index              store/verbs/check
    4. config    the tables that a broker would load                           tables.py
    5. lag       consumer offsets outside of their queues                      lag.py
    6. lost      placeholders of lost messages and skipped offsets    salvage/placeholder.py

    rank 1   a broker does not start
    rank 2   messages are lost, or will be at the next start
    rank 3   consumers or queries see something wrong
    rank 4   a note: nothing is lost, a start or a query is slower

Only the check reads the whole log; the simulated recovery begins where a broker's would. A part that cannot be
examined is a diagnosis itself. Beside a live owner nothing is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from store.change.workspace import relative_name
from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.scratch import Scratch
from store.files.store_reader import StoreReader
from store.layout import StoreLayout
from store.opened.detect import OpenRequest, find_store
from store.structures import findings as kinds
from store.structures.consumequeue.queue_set import QueueKey, QueueState
from store.structures.consumequeue.resting import RestingQueue
from store.structures.findings import KINDS, Finding, Rank
from store.verbs.check.check import check_files
from store.verbs.check.options import CheckOptions, Progress
from store.verbs.info import StoreInfo, look_at_store
from store.verbs.lag import LagReport, review_lag
from store.verbs.recover.open_for_reading import ReadingOpener
from store.verbs.recover.outcome import SimulatedStart
from store.verbs.recover.simulate import simulate_start
from store.verbs.salvage.placeholder import find_placeholders
from store.verbs.tables import ConfigReview, review_tables

OnProgress = Callable[[int, int], None]

_CONFIG_FAULTS = {
    "lost": "table is lost",
    "refused": "table is refused",
    "backup": "backup is loaded",
    "newer-copy": "a newer copy is not loaded",
    "bad-key": "bad entry",
    "outside": "offset outside of its queue",
    "no-topic": "unknown topic",
}
"""Kinds of findings on the broker's tables, as people read them."""
_TRAP_RANKS = {"no-rocksdict": Rank.NOTE} | dict.fromkeys(
    ("lost-index", "index-ahead", "message-database-behind"), Rank.WRONG
)
"""Of these a query by key lacks some; of other traps that are no kind of finding messages are lost."""
_LOST_BESIDE_MESSAGES = {
    "delayed": (
        Rank.WRONG,
        "delayed-at-once",
        "delivers delayed messages at once",
        "the start writes their entries without their times",
    ),
    "index_keys": (
        Rank.WRONG,
        "index-keys",
        "loses index keys",
        "the start deletes index files, and does not index their messages again",
    ),
}
"""By field of the losses."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One fault. `area` is the part that found it, `count` its number; `detail` describes the first.

    `code` and `subject` identify the advice.
    """

    rank: Rank
    area: str
    what: str
    detail: str
    count: int = 1
    code: str = ""
    subject: tuple[object, ...] = ()


@dataclass(slots=True)
class Examination:
    """The diagnoses, the worst first, and the reports behind them; None for a part left out.

    remarks  of the check, as sentences for people
    """

    info: StoreInfo
    diagnoses: list[Diagnosis] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    checked_bytes: int = 0
    starts: list[SimulatedStart] = field(default_factory=list)
    config: ConfigReview | None = None
    lag: LagReport | None = None
    remarks: tuple[str, ...] = ()

    @property
    def worst(self) -> int:
        """The rank of the worst one, 0 without any."""
        return min((one.rank for one in self.diagnoses), default=0)


def examine(
    layout: StoreLayout,
    settings: Mapping[str, object],
    clock: Callable[[], int],
    *,
    lines: tuple[str, ...] = (),
    beside: tuple[str, ...] = (),
    fs: Filesystem | None = None,
    on_progress: OnProgress = lambda done, total: None,
) -> Examination:
    """Run steps 1 to 6. `lines` are the broker lines to simulate, by default the store's own.

    `beside` are lines whose starts are simulated without a diagnosis of their losses.
    """
    return _Examiner(layout, settings, clock, fs or Filesystem(), on_progress).run(lines, beside)


class _Examiner:
    """The inputs of all steps, and the findings so far."""

    def __init__(
        self,
        layout: StoreLayout,
        settings: Mapping[str, Any],
        clock: Callable[[], int],
        fs: Filesystem,
        on_progress: OnProgress,
    ) -> None:
        self.layout, self.settings, self.clock, self.on_progress = layout, settings, clock, on_progress
        self.fs = fs
        self.reader = StoreReader.of(layout, fs)
        self.found = Examination(look_at_store(layout, settings, self.fs))

    def run(self, lines: tuple[str, ...], beside: tuple[str, ...]) -> Examination:
        info, found = self.found.info, self.found
        steps: list[tuple[str, Callable[[], Iterator[Diagnosis]]]] = [
            ("check", self._check),
            ("config", self._config),
            ("lag", self._lag),
            ("lost", self._lost),
        ]
        if info.holder is None:
            # First, so that damage at the log's end is one diagnosis and not two.
            steps.insert(0, ("simulate", lambda: self._simulate(lines or (info.line.name,), beside)))
        diagnoses = [*self._info()]
        for area, step in steps:
            try:
                diagnoses += step()
            except StoreError as error:
                diagnoses.append(Diagnosis(Rank.WRONG, area, "could not be examined", str(error)))
        checked = {one.what for one in diagnoses if one.area == "check"}
        diagnoses = [one for one in diagnoses if one.area != "simulate" or one.what not in checked]
        found.diagnoses = sorted(diagnoses, key=lambda one: (one.rank, -one.count, one.area, one.what))
        return found

    def _info(self) -> Iterator[Diagnosis]:
        """Yield faults beyond the check: structures, the last shutdown, a half change, unreadable parts."""
        ranks = {
            "not shut down": Rank.NOTE,
            "interrupted change": Rank.WRONG,
            "unreadable": Rank.WRONG,
            "no log": Rank.LOSS,
            "no queues": Rank.WRONG,
            "queues incomplete": Rank.NOTE,
        }
        for problem in self.found.info.problems:
            if problem.what in ranks:
                yield Diagnosis(
                    ranks[problem.what],
                    "info",
                    problem.what,
                    problem.detail,
                    code=problem.code,
                    subject=problem.subject,
                )

    def _check(self) -> Iterator[Diagnosis]:
        progress = Progress()
        options = CheckOptions(settings=self.settings)
        done = check_files(self.reader, options, progress, lambda p: self.on_progress(p.walked, p.to_walk))
        self.found.findings = list(done)
        self.found.checked_bytes, self.found.remarks = progress.bytes_done, progress.remarks
        by_kind: dict[str, list[Finding]] = {}
        cuts = {start.log_end for start in self.found.starts if start.lost.messages}
        for finding in self.found.findings:
            if finding.kind not in (kinds.BAD_CRC, kinds.BAD_LENGTH) or finding.offset not in cuts:
                by_kind.setdefault(finding.kind, []).append(finding)
        for kind, of_kind in by_kind.items():
            first = of_kind[0]
            file = relative_name(self.layout.root, Path(first.file))
            detail = f"{KINDS[kind].words}; first: {file}, {first.offset}: {first.detail}".removesuffix(": ")
            count = sum(one.count for one in of_kind)
            code, subject = kind, tuple[object, ...]()
            if kind == kinds.WRONG_SIZE and all(one.topic is not None for one in of_kind):
                code, subject = "queue-file-size", (first.topic, first.queue_id)
            yield Diagnosis(self._rank_of(kind), "check", kind, detail, count, code, subject)

    def _rank_of(self, kind: str) -> Rank:
        """Rank a kind of findings; a wrong length counts less if all simulated starts succeed."""
        starts = self.found.starts
        if kind in (kinds.EMPTY_SEGMENT, kinds.WRONG_SIZE) and starts and all(start.starts for start in starts):
            return Rank.WRONG
        return KINDS[kind].rank

    def _simulate(self, lines: tuple[str, ...], beside: tuple[str, ...]) -> Iterator[Diagnosis]:
        resting: dict[QueueKey, RestingQueue] = {}
        for name in dict.fromkeys((*lines, *beside)):
            with Scratch() as scratch:
                store = find_store(self.layout, self.settings, self.fs, compat=name)
                start = simulate_start(store, self.fs, self.clock, scratch=scratch.folder, resting=resting)
            self.found.starts.append(start)
            if name not in lines:
                continue
            faults = iter(start.faults)
            if not start.starts:
                what, (code, subject) = f"a {name} broker does not start", next(faults)
                yield Diagnosis(Rank.NO_START, "simulate", what, start.reason, code=code, subject=subject)
            if start.lost.messages:
                detail = "" if start.starts else "without the empty file "
                detail += f"the log ends at {start.log_end}: {start.cut_reason}; {start.lost.intact} can be salvaged"
                what, (code, _) = f"a {name} broker loses messages", next(faults)
                yield Diagnosis(Rank.LOSS, "simulate", what, detail, start.lost.messages, code=code)
            for name_of, (rank, code, what, detail) in _LOST_BESIDE_MESSAGES.items():
                if amount := getattr(start.lost, name_of):
                    yield Diagnosis(rank, "simulate", f"a {name} broker {what}", detail, amount, code=code)
            for trap in start.traps if start.starts else ():
                yield Diagnosis(
                    _rank_of_trap(trap.code),
                    "simulate",
                    trap.code,
                    trap.detail,
                    code=trap.code,
                    subject=trap.subject,
                )

    def _config(self) -> Iterator[Diagnosis]:
        info = self.found.info
        self.found.config = review_tables(
            self.layout, self.reader, info.line, self.fs, self._recovered_queues, info.queues
        )
        ranks = {"lost": Rank.LOSS, "refused": Rank.NO_START, "no-topic": Rank.WRONG, "outside": Rank.WRONG}
        for finding in self.found.config.findings:
            rank, code, subject = ranks.get(finding.kind, Rank.NOTE), finding.code, finding.subject
            yield Diagnosis(rank, "config", _CONFIG_FAULTS[finding.kind], finding.detail, code=code, subject=subject)

    def _recovered_queues(self) -> list[QueueState]:
        with self._opener().open(as_is=False) as store:
            return store.queues()

    def _opener(self) -> ReadingOpener:
        return ReadingOpener(OpenRequest(self.layout, self.settings, self.fs, self.clock, None, None), None, None)

    def _lag(self) -> Iterator[Diagnosis]:
        with self._opener().open(as_is=True) as store:
            self.found.lag = report = review_lag(store, ends=self.found.info.queues)
        gone = [row for row in report.queues if row.deleted]
        if gone:
            first = gone[0]
            detail = f"{first.group} is at {first.consumed_offset} of {first.topic}/{first.queue_id}, which begins at "
            count = sum(row.deleted for row in gone)
            detail += f"{first.min_offset}"
            yield Diagnosis(Rank.LOSS, "lag", "deleted unconsumed", detail, count, code="deleted-unconsumed")

    def _lost(self) -> Iterator[Diagnosis]:
        for (topic, queue_id, is_skipped), (first, count) in sorted(find_placeholders(self.reader).items()):
            what = "skipped queue offsets" if is_skipped else "lost messages"
            detail = f"placeholders in {topic}/{queue_id}, the first at queue offset {first}"
            subject = topic, queue_id, first
            yield Diagnosis(Rank.NOTE, "lost", what, detail, count, code="placeholder", subject=subject)


def _rank_of_trap(code: str) -> Rank:
    """Return a trap's own rank, else that of the kind of findings with its name, else a loss."""
    return _TRAP_RANKS.get(code, KINDS[code].rank if code in KINDS else Rank.LOSS)
