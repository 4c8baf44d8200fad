"""Infers messageDelayLevel from the entries of delayed messages, as no file of the store holds it.

    the entry's tags code - the record's store time = the level's delay

At most MOST_ENTRIES entries are read, spread over each level. Tags codes that are no times are skipped: a 4.9 broker
writes the hash of the tags when it dispatches during a recovery.

Where no entry shows the delay of a level, delivered copies in the log show whether it can be the default's:

    the default's delay <= the copy's store time - the delayed record's store time < the same + LATE_MS

Source: ConsumeQueue, CommitLogDispatcherBuildConsumeQueue, ScheduleMessageService.computeDeliverTimestamp (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from pathlib import Path

import numpy as np

from store.config import DEFAULT_DELAY_LEVELS, StoreConfig
from store.errors import BadRequest, StoreError
from store.files.filesystem import Entry, Filesystem
from store.files.numbered import numbered_files, segments_of
from store.formats.derived import is_of_record, units_of
from store.formats.message import decode_record
from store.formats.properties import REAL_TOPIC, UNIQ_KEY, delay_level
from store.formats.queue_unit import UNIT_SIZE
from store.formats.topics import SCHEDULE_TOPIC
from store.layout import StoreLayout, parse_queue_id, parse_segment_name
from store.setting_values import MAX_DELAY_MS, parse_delay_levels
from store.structures.registry import STRUCTURES, names_of, rooms_with

DELAY_LEVELS = "messageDelayLevel"
MOST_ENTRIES = 1 << 13
"""Limit of entries whose records are read, for all levels together: each may cost a page of the disk."""
LATE_MS = 5000
"""A broker delivers within a second, unless it was down or behind; the least time of all copies of a level counts."""
_SECOND_MS = 1000
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", _SECOND_MS))
Delays = dict[int, set[int]]


def infer_delay_levels(layout: StoreLayout, fs: Filesystem) -> str | None:
    """Return messageDelayLevel if the entries show another than the default, else None."""
    return levels_of(read_delays(layout, fs))


def levels_of(found: Delays) -> str | None:
    """Return messageDelayLevel if these delays show another than the default, else None.

    The result is None too if entries of one level disagree. A level without entries gets the default's delay; beyond
    the default's last level, the delay of that last level.
    """
    default = parse_delay_levels(DEFAULT_DELAY_LEVELS)
    if any(len(delays) > 1 for delays in found.values()):
        return None
    last = max([*found, len(default)])
    levels = [default[min(level, len(default)) - 1] for level in range(1, last + 1)]
    for level, (delay_ms,) in found.items():
        levels[level - 1] = delay_ms
    return None if tuple(levels) == default else " ".join(map(_word, levels))


def describe_inferred_delays(config: StoreConfig, settings: Mapping[str, object]) -> list[str]:
    """Describe inferred delays: those that are neither given as a setting nor the default."""
    levels = config.message_delay_level
    if DELAY_LEVELS in settings or levels == DEFAULT_DELAY_LEVELS:
        return []
    delays, default = config.delay_levels_ms, parse_delay_levels(DEFAULT_DELAY_LEVELS)
    shown = [
        f"{level} ({_word(delay_ms)})"
        for level, delay_ms in enumerate(delays, start=1)
        if delay_ms != default[min(level, len(default)) - 1] or level == len(delays) > len(default)
    ]
    text = f"delayed messages show the delays of the levels {', '.join(shown)}, so that {DELAY_LEVELS} is {levels}"
    return [f"{text}; give it as a setting if the broker has another"]


def describe_assumed_delays(
    layout: StoreLayout, config: StoreConfig, fs: Filesystem, built: Set[int], *, are_new: bool = False
) -> list[str]:
    """Describe the default's delays of the levels `built` that no entry and no delivered copy shows.

    are_new  the store's own entries are those that were built, and show nothing

    Raise BadRequest if the copies show that a level has another delay, or if the default lacks a level.
    """
    unseen = built - (frozenset() if are_new else refuse_mixed_delays(layout, fs).keys())
    if unseen and max(unseen) > len(config.delay_levels_ms):
        raise BadRequest(
            f"the log has messages of delay level {max(unseen)}, and {DELAY_LEVELS}'s default has "
            f"{len(config.delay_levels_ms)} levels; no entry shows the delay",
            file=layout.queue_folder(SCHEDULE_TOPIC, max(unseen) - 1),
            code="mixed-delays",
        )
    levels = sorted(unseen - _delivered_levels(layout, config, fs, unseen)) if unseen else []
    if not levels:
        return []
    assumed = ", ".join(f"{level} ({_word(config.delay_levels_ms[level - 1])})" for level in levels)
    text = f"no entry shows the delays of these levels, and {DELAY_LEVELS}'s default is assumed: {assumed}"
    return [f"{text}; give the broker's own as a setting, or these messages are delivered at other times"]


def _delivered_levels(layout: StoreLayout, config: StoreConfig, fs: Filesystem, levels: Set[int]) -> set[int]:
    """Return the levels with delivered copies; raise BadRequest where they show another delay."""
    least = {level: after_ms for level, after_ms in _delivered_after(layout, fs).items() if level in levels}
    for level, after_ms in sorted(least.items()):
        delay_ms = config.delay_levels_ms[level - 1]
        if not delay_ms <= after_ms < delay_ms + LATE_MS:
            after = f"{after_ms / _SECOND_MS:g}s"
            raise BadRequest(
                f"messages of delay level {level} were delivered after {after} at the earliest, and "
                f"{DELAY_LEVELS}'s default is {_word(delay_ms)}; no entry shows the delay",
                file=layout.queue_folder(SCHEDULE_TOPIC, level - 1),
                code="mixed-delays",
            )
    return set(least)


def _delivered_after(layout: StoreLayout, fs: Filesystem) -> dict[int, int]:
    """Return the least time (ms) from a delayed record to its delivered copy, by level."""
    # Few stores need this scan of the whole log.
    from store.files.store_reader import StoreReader
    from store.structures.commitlog.resync import read_log
    from store.structures.commitlog.rewritten import records_with

    files = StoreReader.of(layout, fs)
    waiting: dict[tuple[str | None, str | None], tuple[int, int]] = {}
    least: dict[int, int] = {}
    for record in records_with(read_log(files)[1], REAL_TOPIC):
        properties, at_ms = record.properties, record.store_timestamp_ms
        key = properties.get(REAL_TOPIC), properties.get(UNIQ_KEY)
        if record.topic == SCHEDULE_TOPIC:
            waiting[key] = delay_level(properties), at_ms
        elif record.topic == key[0] and key[1] is not None and key in waiting:
            level, since_ms = waiting.pop(key)
            least[level] = min(at_ms - since_ms, least.get(level, at_ms - since_ms))
    return least


def built_levels(published: Mapping[Path, Path], layout: StoreLayout, fs: Filesystem) -> set[int]:
    """Return the delay levels whose queues get entries from a plan's files.

    published  the staged file of each path that the plan replaces
    """
    found, schedule = set[int](), layout.consumequeue / SCHEDULE_TOPIC
    databases = [one for one in STRUCTURES if one.has_furniture("delays")]
    for path, staged in published.items():
        for one in (one for one in databases if path == layout.root / one.traces[0].path):
            room = one.furniture("delays")
            found |= {level for level, units in room.units_in(staged.parent, fs) if len(units)} if room else set()
        queue_id = parse_queue_id(path.parent.name) if path.parent.parent == schedule else None
        if queue_id is not None and len(_written_units(fs.read_file(staged))):
            found.add(queue_id + 1)
    return found


def stored_levels(layout: StoreLayout, fs: Filesystem) -> set[int]:
    """Return the delay levels whose queues have entries."""
    queues = [*_units_in_databases(layout, fs), *_units_in_files(layout, fs)]
    return {level for level, units in queues if len(units)}


def refuse_mixed_delays(layout: StoreLayout, fs: Filesystem) -> Delays:
    """Return the delays that the entries show; raise BadRequest if entries of one level show several."""
    found = read_delays(layout, fs)
    for level, fault in _mixed_levels(found):
        raise BadRequest(
            f"{fault}; the broker's {DELAY_LEVELS} is not known",
            file=layout.queue_folder(SCHEDULE_TOPIC, level - 1),
            code="mixed-delays",
        )
    return found


def describe_restored_delays(layout: StoreLayout, config: StoreConfig, fs: Filesystem) -> list[str]:
    """Describe the default's delays in a store that was built from records alone."""
    try:
        return describe_assumed_delays(layout, config, fs, stored_levels(layout, fs), are_new=True)
    except BadRequest as refused:
        return [f"{refused.reason}: give the broker's own as a setting"]


def describe_mixed_delays(found: Delays) -> list[str]:
    """Describe each level whose entries show several delays: no command rewrites its queue."""
    return [
        f"{fault}: the broker's {DELAY_LEVELS} was changed, or entries are damaged; the queue of this level is "
        "rewritten only with the broker's own as a setting"
        for _, fault in _mixed_levels(found)
    ]


def _mixed_levels(found: Delays) -> Iterator[tuple[int, str]]:
    for level, delays in sorted(found.items()):
        if len(delays) > 1:
            yield level, f"the entries of delay level {level} show delays of {' and '.join(map(_word, sorted(delays)))}"


def read_delays(layout: StoreLayout, fs: Filesystem) -> Delays:
    """Return the delays (ms) that each level's entries show, by level."""
    queues = dict([*_units_in_databases(layout, fs), *_units_in_files(layout, fs)])
    segments = {parse_segment_name(file.path.name): file for file in segments_of(layout, fs)}
    found: Delays = {}
    for level, units in queues.items():
        wanted = len(units) if len(units) * len(queues) <= MOST_ENTRIES else MOST_ENTRIES // len(queues)
        rows = np.linspace(0, len(units) - 1, wanted).astype(np.int64).tolist() if len(units) else []
        for row in rows:
            delay_ms = _delay_of(units[row], level, segments, fs)
            if delay_ms is not None:
                found.setdefault(level, set()).add(delay_ms)
    return found


def _units_in_files(layout: StoreLayout, fs: Filesystem) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each level with the written units of its queue files, in order; unreadable files are skipped."""
    folder = layout.consumequeue / SCHEDULE_TOPIC
    for name in fs.list_names(folder) if fs.is_folder(folder) else ():
        queue_id = parse_queue_id(name)
        if queue_id is None or queue_id < 0:
            continue
        parts = []
        for file in sorted(numbered_files(folder / name, fs), key=lambda file: file.path.name):
            with suppress(StoreError):
                parts.append(_written_units(fs.read_file(file.path)))
        if parts:
            yield queue_id + 1, np.concatenate(parts)


def _units_in_databases(layout: StoreLayout, fs: Filesystem) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each level with its units in a database (5.x)."""
    for room in rooms_with(names_of(layout, fs), "delays", "units_of"):
        yield from room.units_of(layout, fs)


def _written_units(data: bytes) -> np.ndarray:
    units = units_of(data[: len(data) // UNIT_SIZE * UNIT_SIZE])
    return np.asarray(units[is_of_record(units)])


def _delay_of(unit: np.void, level: int, segments: Mapping[int | None, Entry], fs: Filesystem) -> int | None:
    """Return the delay (ms) of the unit's record; None if the record is no delayed message of this level."""
    log_offset, size = int(unit["log_offset"]), int(unit["size"])
    start = max((at for at in segments if at is not None and at <= log_offset), default=None)
    if start is None or log_offset + size > start + segments[start].size:
        return None
    try:
        descriptor = fs.open_read(segments[start].path)
        record = decode_record(fs.read(descriptor, log_offset - start, size))
        is_delayed = record.topic == SCHEDULE_TOPIC and delay_level(record.properties) == level
    except StoreError:
        return None
    delay_ms = int(unit["tags_code"]) - record.store_timestamp_ms
    is_delay = 0 <= delay_ms <= MAX_DELAY_MS and delay_ms % _SECOND_MS == 0
    return delay_ms if is_delayed and record.log_offset == log_offset and is_delay else None


def _word(delay_ms: int) -> str:
    """Return a delay in the form of messageDelayLevel, such as 5m."""
    unit, unit_ms = next((unit, ms) for unit, ms in _UNITS_MS if delay_ms % ms == 0)
    return f"{delay_ms // unit_ms}{unit}"
