"""The broker's retention rules as pure functions, without access to files.

    1. find_trigger    the reason for a pass: the hour, the space, by hand
    2. judge_segments  from the oldest, never the last, at most `batch_size` a pass or until enough bytes are free; a
                       kept segment keeps the later ones
    3. count_expired   the number of queue, extension or index files that end before the log begins

Source: DefaultMessageStore.CleanCommitLogService.isTimeToDelete and isSpaceToDelete, UtilAll.isItTimeToDo,
MappedFileQueue.deleteExpiredFileByTime and deleteExpiredFileByOffset (4.9.8, 5.3.3).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from store.broker_line import BrokerLine
from store.config import StoreConfig
from store.formats.wording import amount
from store.setting_values import parse_hours

HOUR_MS = 3_600_000
# The broker's getters clamp diskMaxUsedSpaceRatio to these limits and, in 5.x, diskSpaceCleanForciblyRatio and
# diskSpaceWarningLevelRatio.
MAX_USED_PERCENT = (10, 95)
FORCED_PERCENT = (30, 85)
FULL_PERCENT = (35, 90)


@dataclass(frozen=True, slots=True)
class Retention:
    """The settings that the rules need; ratios as shares 0 … 1.

    stops_at_forced  5.3: a partition above the forced ratio is a reason by itself, and ends the search for reasons
    """

    hours_of_day: frozenset[int]
    reserved_hours: int
    most_used: float
    forced_above: float
    full_above: float
    may_force: bool
    batch_size: int
    stops_at_forced: bool

    @classmethod
    def of(cls, config: StoreConfig, line: BrokerLine, reserved_hours: int | None = None) -> Retention:
        """Return the retention of a store's settings; `reserved_hours` replaces fileReservedTime."""
        forced, full = config.disk_space_clean_forcibly_ratio, config.disk_space_warning_level_ratio
        return cls(
            hours_of_day=frozenset(parse_hours(config.delete_when)),
            reserved_hours=config.file_reserved_time if reserved_hours is None else reserved_hours,
            most_used=_clamp(config.disk_max_used_space_ratio, MAX_USED_PERCENT) / 100,
            forced_above=(_clamp(forced, FORCED_PERCENT) if line.cleans_when_forced else forced) / 100,
            full_above=(_clamp(full, FULL_PERCENT) if line.cleans_when_forced else full) / 100,
            may_force=config.clean_file_forcibly_enable,
            batch_size=config.delete_file_batch_max,
            stops_at_forced=line.cleans_when_forced,
        )

    def is_short(self, used: float) -> bool:
        """Return whether a partition with this share used is a reason to delete; negative when unknown."""
        return used < 0 or used > self.most_used or (self.stops_at_forced and used > self.forced_above)


def describe_limits(config: StoreConfig, line: BrokerLine) -> list[str]:
    """Describe the ratios that the broker clamps, as sentences for people."""
    percents = {"diskMaxUsedSpaceRatio": (config.disk_max_used_space_ratio, MAX_USED_PERCENT)}
    if line.cleans_when_forced:
        percents["diskSpaceCleanForciblyRatio"] = config.disk_space_clean_forcibly_ratio, FORCED_PERCENT
        percents["diskSpaceWarningLevelRatio"] = config.disk_space_warning_level_ratio, FULL_PERCENT
    return [
        f"{name}={percent} is taken as {_clamp(percent, limits)}, as a broker does"
        for name, (percent, limits) in percents.items()
        if _clamp(percent, limits) != percent
    ]


@dataclass(frozen=True, slots=True)
class Trigger:
    """The reasons for a pass, if any.

    forced  age does not count
    enough  bytes to free instead of a number of files; None for the broker's batches
    """

    reasons: tuple[str, ...]
    forced: bool
    enough: int | None = None

    @property
    def is_on(self) -> bool:
        """Whether a pass deletes anything."""
        return bool(self.reasons)


@dataclass(frozen=True, slots=True)
class SegmentAge:
    """The facts of a segment that the rules need."""

    name: str
    mtime_ms: int
    size: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a segment is deleted, and the rule that decides it."""

    goes: bool
    rule: str


def find_trigger(
    retention: Retention, now_ms: int, log_used: float, queues_used: float, *, by_hand: bool = False
) -> Trigger:
    """Return the reasons of a pass.

    log_used     used share of the log's partition, the emptiest of several; negative when unknown
    queues_used  the same for the queues' partition, which counts only if the log's is no reason
    """
    reasons = []
    hour = time.localtime(now_ms // 1000).tm_hour
    if hour in retention.hours_of_day:
        reasons.append(f"hour {hour:02d} is in deleteWhen")
    forced = False
    for name, used in (("commit log", log_used), ("consume queues", queues_used)):
        forced = forced or used > retention.forced_above
        if retention.is_short(used):
            reasons.append(_space_reason(name, used, retention))
            break
    if by_hand:
        reasons.append("requested by hand")
    return Trigger(tuple(reasons), forced and retention.may_force)


def judge_segments(
    segments: Sequence[SegmentAge], trigger: Trigger, retention: Retention, now_ms: int, passes: int = 1
) -> list[Verdict]:
    """Return a verdict for every segment, oldest first."""
    limit = passes * retention.batch_size
    verdicts: list[Verdict] = []
    kept, freed = "", 0
    for segment in segments[:-1]:
        if not trigger.is_on:
            verdict = Verdict(False, "no trigger is active")
        elif kept:
            verdict = Verdict(False, f"an older segment is kept ({kept})")
        elif trigger.enough is not None and freed >= trigger.enough:
            verdict = Verdict(False, "older segments have the bytes requested")
        elif trigger.enough is None and len(verdicts) >= limit:
            verdict = Verdict(False, f"at most {amount(limit, 'file')} in {amount(passes, 'pass')}")
        else:
            verdict = _judge_age(segment, trigger, retention, now_ms)
        if trigger.is_on and not verdict.goes:
            kept = kept or segment.name
        freed += segment.size if verdict.goes else 0
        verdicts.append(verdict)
    return [*verdicts, Verdict(False, "the last segment is never deleted")] if segments else []


def count_expired(ends: Sequence[int], log_start: int) -> int:
    """Count the files that end before the log's start, from the oldest, never the last."""
    return sum(1 for _ in takewhile(lambda end: end < log_start, ends[:-1]))


def _judge_age(segment: SegmentAge, trigger: Trigger, retention: Retention, now_ms: int) -> Verdict:
    hours = retention.reserved_hours
    age = f"modified {(now_ms - segment.mtime_ms) / HOUR_MS:.1f} hours ago, kept for {hours}"
    if now_ms >= segment.mtime_ms + hours * HOUR_MS:
        return Verdict(True, age)
    if not trigger.forced:
        return Verdict(False, age)
    asked = trigger.enough is not None
    return Verdict(True, "requested by hand, at any age" if asked else "the disk is too full for retention to count")


def _space_reason(name: str, used: float, retention: Retention) -> str:
    if used < 0:
        return f"the use of the partition of the {name} is unknown"
    limit = min(retention.most_used, retention.forced_above) if retention.stops_at_forced else retention.most_used
    return f"the partition of the {name} is {used:.0%} full, more than {limit:.0%}"


def _clamp(percent: int, limits: tuple[int, int]) -> int:
    return max(limits[0], min(limits[1], percent))
