"""The compatible versions of the broker, and the rules that differ between them."""

from __future__ import annotations

from typing import NamedTuple

from store.errors import BadRequest


class BrokerLine(NamedTuple):
    """One version of the broker: each field is a rule that versions differ in, by default as in 4.9."""

    name: str
    accepts_v2: bool = False
    """Records of version 2, whose topic has a 2-byte length, are records."""
    skips_folders: bool = False
    """A folder among segments is skipped, not refused."""
    drops_empty_last_file: bool = False
    """A last file of length zero is deleted at start, not refused."""
    loads_every_index_file: bool = False
    """An index file that cannot be opened is refused at start; otherwise the files after it are not loaded."""
    recovers_with_delay_levels: bool = False
    """Delayed messages found in recovery get their deliver time in the queue unit, not the hash of their tags."""
    starts_at_queue_end: bool = False
    """A normal recovery starts in the newest segment that queues reach into, not in the third last."""
    dispatches_in_recovery: bool = False
    """A normal recovery dispatches the records past the queues' end; nothing is left for the start."""
    searches_lower_bound: bool = False
    """A search by time gives the first message at or after the time, not the nearest in one file."""
    begins_expired_queue_at_end: bool = False
    """A queue whose messages have all expired begins at its end; otherwise at 0 or at its earlier start."""
    renames_config: bool = True
    """A table under config/ is written to .tmp and renamed; otherwise the file is overwritten."""
    cleans_when_forced: bool = False
    """A partition above diskSpaceCleanForciblyRatio starts cleaning, even below diskMaxUsedSpaceRatio."""
    skips_delay_poison: bool = False
    """A delayed message that cannot be delivered is skipped; otherwise it blocks its level."""
    ends_with_separator: bool = False
    """A put's property string ends with a separator, because the broker encodes the properties again."""
    marks_process: bool = False
    """The abort marker holds the broker's process id, abort.bak the marker's previous content."""
    indexes_tags: bool = False
    """A message's tags get an entry in the index files, after those of its keys."""
    matches_first_record: bool = False
    """A recovery starts in the newest of some segments: its first record is whole, and all files reach into it."""
    deletes_by_unique_key: bool = False
    """A timer's delete has the unique key of the message; otherwise its topic, a + and the key."""
    guards_unwritten_file: bool = False
    """A truncation in recovery ignores a last queue file without a unit; otherwise 5.3 does not start with it."""

    marks_flushed_record: bool = False
    """The checkpoint has the log offset of the last record whose queue unit is flushed."""
    opens_halves_by_key: bool = False
    """Half messages that are open may have a key each in a database, and are not found by their queue."""
    drops_real_topic: bool = False
    """A committed message lacks its half's properties REAL_TOPIC and REAL_QID."""

    def __str__(self) -> str:
        return self.name

    def begins_at_end(self, newest: int, min_log_offset: int) -> bool:
        """Return whether a queue begins at its end: its newest record, at log offset `newest`, has expired."""
        return self.begins_expired_queue_at_end and newest < min_log_offset


LINE_4_9 = BrokerLine(name="4.9")
LINE_5_3 = BrokerLine(
    name="5.3",
    accepts_v2=True,
    skips_folders=True,
    drops_empty_last_file=True,
    loads_every_index_file=True,
    recovers_with_delay_levels=True,
    starts_at_queue_end=True,
    dispatches_in_recovery=True,
    searches_lower_bound=True,
    begins_expired_queue_at_end=True,
    renames_config=False,
    cleans_when_forced=True,
    skips_delay_poison=True,
    ends_with_separator=True,
    marks_process=True,
)
LINE_5_5 = LINE_5_3._replace(
    name="5.5",
    indexes_tags=True,
    matches_first_record=True,
    deletes_by_unique_key=True,
    guards_unwritten_file=True,
    marks_flushed_record=True,
    opens_halves_by_key=True,
    drops_real_topic=True,
)
BROKER_LINES = {line.name: line for line in (LINE_4_9, LINE_5_3, LINE_5_5)}


def broker_line(name: str) -> BrokerLine:
    """Return the version of this name; BadRequest for another name."""
    line = BROKER_LINES.get(name)
    if line is None:
        raise BadRequest(f"the broker line is {' or '.join(BROKER_LINES)}, not {name}")
    return line
