"""Infer messageDelayLevel from the entries of delayed messages, as no file of the store holds it.

    the entry's tags code - the record's store time = the level's delay

Some entries of each level are read. Codes that are no times are passed over: a 4.9 broker that dispatches while it
recovers writes the hash of the tags.

Source: ConsumeQueue, CommitLogDispatcherBuildConsumeQueue, ScheduleMessageService.computeDeliverTimestamp (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from store.config import DEFAULT_DELAY_LEVELS, MAX_DELAY_MS, StoreConfig, parse_delay_levels
from store.disk.filesystem import Entry, Filesystem
from store.errors import BadRequest, StoreError
from store.formats.message import decode_record, delay_level
from store.formats.queue_unit import UNIT_SIZE, QueueUnit, decode_unit
from store.formats.topics import SCHEDULE_TOPIC
from store.layout import StoreLayout, parse_queue_id, parse_segment_name
from store.opened.sizes import numbered_files, segments_of

DELAY_LEVELS = "messageDelayLevel"
_ENTRIES = 8
_NEWEST_FILES = 2
_SECOND_MS = 1000
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", _SECOND_MS))
Delays = dict[int, set[int]]


def infer_delay_levels(layout: StoreLayout, fs: Filesystem) -> str | None:
    """Return messageDelayLevel where the entries tell another than the default, else None.

    Those of one level that disagree tell nothing. A level without entries has the default's delay, and behind the
    default's last level that one's.
    """
    found = read_delays(layout, fs)
    default = parse_delay_levels(DEFAULT_DELAY_LEVELS)
    if any(len(delays) > 1 for delays in found.values()):
        return None
    last = max([*found, len(default)])
    levels = [default[min(level, len(default)) - 1] for level in range(1, last + 1)]
    for level, (delay_ms,) in found.items():
        levels[level - 1] = delay_ms
    return None if tuple(levels) == default else " ".join(map(_word, levels))


def describe_inferred_delays(config: StoreConfig, settings: Mapping[str, object]) -> list[str]:
    """Describe the delays where they are not given, and not the default."""
    levels = config.message_delay_level
    if DELAY_LEVELS in settings or levels == DEFAULT_DELAY_LEVELS:
        return []
    return [f"delayed messages tell {DELAY_LEVELS}={levels}; give it as a setting if the broker has another"]


def refuse_mixed_delays(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise BadRequest where the entries of a level have several delays."""
    for level, delays in sorted(read_delays(layout, fs).items()):
        if len(delays) > 1:
            told = " and ".join(map(_word, sorted(delays)))
            raise BadRequest(
                f"the entries of delay level {level} tell delays of {told}, and not which of them the broker has",
                file=layout.queue_folder(SCHEDULE_TOPIC, level - 1),
                code="mixed-delays",
            )


def read_delays(layout: StoreLayout, fs: Filesystem) -> Delays:
    """The delays in ms that some entries of each level have, by level."""
    found: Delays = {}
    folder = layout.consumequeue / SCHEDULE_TOPIC
    segments = {parse_segment_name(file.path.name): file for file in segments_of(layout, fs)}
    for name in fs.list_names(folder) if fs.is_folder(folder) else ():
        queue_id = parse_queue_id(name)
        if queue_id is None or queue_id < 0:
            continue
        files = sorted(numbered_files(folder / name, fs), key=lambda file: file.path.name)
        for file in files[-_NEWEST_FILES:]:
            for unit in _some_units(file, fs):
                delay_ms = _delay_of(unit, queue_id + 1, segments, fs)
                if delay_ms is not None:
                    found.setdefault(queue_id + 1, set()).add(delay_ms)
    return found


def _some_units(file: Entry, fs: Filesystem) -> Iterator[QueueUnit]:
    """The first, the last and some units between; nothing of an unreadable file."""
    try:
        descriptor = fs.open_read(file.path)

        def unit(number: int) -> QueueUnit:
            return decode_unit(fs.read(descriptor, number * UNIT_SIZE, UNIT_SIZE))

        low, high = 0, file.size // UNIT_SIZE
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if unit(middle).is_written else (low, middle)
        for number in {(low - 1) * step // (_ENTRIES - 1) for step in range(_ENTRIES)} if low else ():
            yield unit(number)
    except StoreError:
        return


def _delay_of(unit: QueueUnit, level: int, segments: Mapping[int | None, Entry], fs: Filesystem) -> int | None:
    """The delay of the unit's record; None where the unit or its record does not tell it."""
    start = max((at for at in segments if at is not None and at <= unit.log_offset), default=None)
    if unit.is_pre_blank or start is None or unit.log_offset + unit.size > start + segments[start].size:
        return None
    try:
        descriptor = fs.open_read(segments[start].path)
        record = decode_record(fs.read(descriptor, unit.log_offset - start, unit.size))
        is_delayed = record.topic == SCHEDULE_TOPIC and delay_level(record.properties) == level
    except (StoreError, ValueError):
        return None
    delay_ms = unit.tags_code - record.store_timestamp_ms
    is_delay = 0 <= delay_ms <= MAX_DELAY_MS and delay_ms % _SECOND_MS == 0
    return delay_ms if is_delayed and record.log_offset == unit.log_offset and is_delay else None


def _word(delay_ms: int) -> str:
    """A delay as messageDelayLevel has it."""
    unit, unit_ms = next((unit, ms) for unit, ms in _UNITS_MS if delay_ms % ms == 0)
    return f"{delay_ms // unit_ms}{unit}"
