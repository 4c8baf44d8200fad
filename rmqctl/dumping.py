"""dump: the choice of files and entries, and their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqctl.context import Session
from rmqctl.messages import MessageRows
from rmqctl.output import Format
from rmqctl.result import RowBlock
from rmqctl.show import count_is, printable, show_value

if TYPE_CHECKING:
    from store.verbs import Asked, DumpedFile, DumpedFolder, Entry, EntryBlock

WHERE_ROWS = 4096
HEX_BYTES = 8
SHOWN_LETTERS = 24
"""Bytes and characters of one field that people see."""


def folder_of(session: Session, kind: str, target: str | None) -> DumpedFolder | None:
    """Return the database with entries of a kind: the target, or the store's; None if they are in files."""
    from store.opened import make_layout
    from store.verbs import dumped_folder, dumped_folder_at

    if target is not None and Path(target).exists():
        return dumped_folder_at(kind, Path(target))
    root, fs = session.store.reached
    return dumped_folder(kind, make_layout(root, session.store.settings(), fs), fs)


def files_of(session: Session, kind: str, target: str | None, asked: Asked) -> list[DumpedFile]:
    """Return the files of a target: a path, TOPIC or TOPIC/QUEUE; without a target those of the store.

    Raise NotAStore if there are none.
    """
    from store.errors import NotAStore
    from store.verbs import dumped_at, dumped_files

    if target is not None and Path(target).exists():
        return dumped_at(kind, Path(target))
    found = dumped_files(kind, session.store.open_reader(as_it_is=True, or_segment=True), asked)
    if not found:
        fault = f"no {kind} of {target}, and there is no such file" if target else f"no {kind}; name a file to dump"
        raise NotAStore(f"the store has {fault}", file=session.store.place)
    return found


def split_target(target: str | None) -> tuple[str | None, int | None]:
    """Return topic and queue id of TOPIC/QUEUE or TOPIC; raise NotAStore for another text with a slash."""
    from store.errors import NotAStore
    from store.layout import parse_whole_number

    topic, _, queue = (target or "").partition("/")
    queue_id = parse_whole_number(queue)
    if queue and queue_id is None:
        raise NotAStore("neither a file nor TOPIC/QUEUE", file=target)
    return topic or None, queue_id


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """A choice of entries, by log offsets, queue offsets, entry numbers, or store times."""

    from_number: int | None = None
    to_number: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    tags: Any = None
    key: str | None = None

    @property
    def is_for_messages(self) -> bool:
        """Whether only records can match."""
        return any(one is not None for one in (self.from_ms, self.to_ms, self.topic, self.tags, self.key))

    def may_want(self, raw: bytes) -> bool:
        """Return whether an undecoded record may match: its bytes contain topic and key."""
        return all(text is None or text.encode() in raw for text in (self.topic, self.key))

    def wants(self, entry: Entry) -> bool:
        """Return whether the entry matches."""
        if self.from_number is not None and entry.number < self.from_number:
            return False
        if self.to_number is not None and entry.number > self.to_number:
            return False
        if not self.is_for_messages:
            return True
        message = entry.message
        return (
            message is not None
            and self.topic in (None, message.topic)
            and self.queue_id in (None, message.queue_id)
            and (self.key is None or self.key == message.uniq_key or self.key in message.keys)
            and (self.tags is None or self.tags.matches(message))
            and (self.from_ms is None or message.store_timestamp_ms >= self.from_ms)
            and (self.to_ms is None or message.store_timestamp_ms <= self.to_ms)
        )

    def part_of(self, block: EntryBlock) -> EntryBlock:
        """Return the entries of a block that match by number."""
        low, high = self.from_number, self.to_number
        rows = block.numbers >= (low if low is not None else block.numbers)
        return block.select(rows & (block.numbers <= (high if high is not None else block.numbers)))


class NewEntries:
    """Follows a log or a queue that is being written: yields each entry once, in order.

    Each reading goes through the files in order. It may meet half of a record. Or the writer may begin the next file
    after the end of this one was read. Both look like damage or a gap; the next reading decides.

    after  number of the next entry: a log offset or a queue offset; None before the first
    """

    def __init__(self, *, of_log: bool) -> None:
        self.after: int | None = None
        self._of_log = of_log
        self._doubted = self._shown_fault = -1

    def settled(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Yield the entries of one reading, up to the first one in doubt."""
        expected = self.after
        for entry in entries:
            if entry.kind == "blank":
                expected = None
            if entry.kind in ("blank", "empty", "end") or (entry.is_fault and entry.number <= self._shown_fault):
                continue
            if self._is_in_doubt(entry, expected):
                return
            expected = self._take(entry)
            yield entry

    def _is_in_doubt(self, entry: Entry, expected: int | None) -> bool:
        is_sound = entry.message.is_crc_right if entry.message is not None else not entry.is_fault
        place = entry.number
        if is_sound:
            if expected is None or entry.number <= expected:
                return False
            place = expected
        is_new = place > self._doubted
        self._doubted = max(place, self._doubted)
        return is_new

    def _take(self, entry: Entry) -> int | None:
        """Return the number of the entry after this one; None after damage, as its length is unknown."""
        if entry.is_fault:
            self._shown_fault = entry.number
            return None
        self.after = entry.number + (len(entry.data) if self._of_log else 1)
        return self.after


ENTRY_NAMES = ("kind", "file", "position")


class EntryRows:
    """Makes rows of entries, and counts entries and faults.

    unshown  makes the rows for --where, without warnings about their bodies
    """

    def __init__(
        self, session: Session, messages: MessageRows, unshown: MessageRows, where: str | None, limit: int | None
    ) -> None:
        self.count = 0
        self.fault_count = 0
        self._session, self._where, self._limit = session, where, limit
        self._messages, self._unshown = messages, unshown

    @property
    def is_csv(self) -> bool:
        """Whether all rows need the names of one heading."""
        return self._session.format is Format.CSV

    @property
    def is_filtered(self) -> bool:
        """Whether --where filters the rows."""
        return self._where is not None

    def names(self, pieces: Iterable[Entry | EntryBlock]) -> tuple[str, ...]:
        """Return every name in the rows of these entries, each once."""
        from store.verbs import Entry

        found = dict.fromkeys(ENTRY_NAMES)
        for piece in pieces:
            if not isinstance(piece, Entry):
                found |= dict.fromkeys(piece.columns if len(piece) else ())
            elif piece.message is not None:
                found |= dict.fromkeys(self._unshown.names)
            else:
                found |= dict.fromkeys(self._row(piece, self._unshown))
        return tuple(found)

    def rows(self, entries: Iterable[Entry]) -> Iterator[dict[str, object]]:
        """Yield the rows of the entries that match --where, up to --limit."""
        for entry, row in self.chosen(entries):
            del entry
            yield row

    def chosen(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, dict[str, object]]]:
        """Yield the entries that match --where, up to --limit, with their rows."""
        walked = self._counted(entries)
        kept = self._filtered(walked) if self._where is not None else walked
        for entry in islice(kept, self._limit):
            self.count += 1
            yield entry, self._row(entry, self._messages)
        if self._limit is not None and self.count == self._limit and next(iter(kept), None) is not None:
            self._note_limit()

    def blocks(self, pieces: Iterable[Entry | EntryBlock]) -> Iterator[dict[str, object] | RowBlock]:
        """Yield the rows of entries and of blocks, up to --limit; for programs, without --where."""
        from store.verbs import Entry

        for piece in pieces:
            if self.count == self._limit and (isinstance(piece, Entry) or len(piece)):
                self._note_limit()
                return
            if isinstance(piece, Entry):
                self.count += 1
                self.fault_count += piece.is_fault
                yield self._row(piece, self._messages)
                continue
            part = piece.select(slice(None if self._limit is None else self._limit - self.count))
            self.count += len(part)
            if len(part):
                yield RowBlock(len(part), part.columns)
            if len(part) < len(piece):
                self._note_limit()
                return

    def _note_limit(self) -> None:
        self._session.note(f"only the first {count_is(self.count, 'entry')} shown; --limit 0 shows all")

    def field_rows(self, entries: Iterable[Entry]) -> Iterator[dict[str, object]]:
        """Yield a row for each field of the chosen entries: its span in the file, its bytes, its value."""
        for entry, _ in self.chosen(entries):
            for field in entry.fields:
                data = entry.data[field.start : field.start + field.size]
                value = field.value.hex() if isinstance(field.value, bytes) else field.value
                if not self._session.format.is_for_programs:
                    value = printable(show_value(field.name, value), SHOWN_LETTERS)
                yield {
                    "position": entry.start + field.start,
                    "size": field.size,
                    "field": field.name,
                    "value": value,
                    "hex": self._hex(data),
                    "file": entry.path,
                }

    def _hex(self, data: bytes) -> str:
        """Return the bytes as hex: all for programs and with --wide, else the first HEX_BYTES."""
        if self._session.format.is_for_programs:
            return data.hex()
        if self._session.options.wide or len(data) <= HEX_BYTES:
            return data.hex(" ", 4)
        return f"{data[:HEX_BYTES].hex(' ', 4)}…"

    def _counted(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            self.fault_count += entry.is_fault
            yield entry

    def _row(self, entry: Entry, messages: MessageRows) -> dict[str, object]:
        row = dict(zip(ENTRY_NAMES, (entry.kind, entry.path, entry.start), strict=True))
        if entry.message is not None:
            return {**row, **messages.row(entry.message)}
        values = entry.values()
        if entry.kind in ("blank", "damage", "end"):
            values = {"log_offset": entry.number, **values}
        return {**row, **values}

    def _filtered(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        from store.query.embedded import RowWhere

        assert self._where is not None
        with RowWhere(self._where, ("kind", "topic", "tags", "keys", "properties")) as where:
            for batch in _batches(entries, WHERE_ROWS):
                for number in where.select([self._row(entry, self._unshown) for entry in batch]):
                    yield batch[number]


def _batches(pairs: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(pairs)
    while batch := list(islice(rest, size)):
        yield batch
