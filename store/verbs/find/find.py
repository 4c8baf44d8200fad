"""find: records by key, unique key, message id or text, over all topics.

    1. a message id has its record's log offset: the record is read there
    2. a key is looked up in the index for each topic, and searched in the stretches of the log without an index
    3. if both find nothing, the text is searched in all bytes of the log
    4. the unique keys of the found messages are searched in the same way: the life of the message

Each candidate is decoded and compared. `searched` lists the parts of the log by index or scan. A record of several
messages (5.x) gives the messages that are hits by themselves, or all of them if only the record is a hit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from store.errors import BadRequest, DamagedRecord, StoreError
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.body import decode_body
from store.formats.message import INNER_BATCH, RECORD_MIN_SIZE, StoredMessage, decode_record
from store.formats.message_id import decode_message_id
from store.formats.run import Run, Stretch
from store.layout import StoreLayout
from store.opened.arguments import checks_arguments
from store.opened.detect import make_layout
from store.opened.reach import reach_store
from store.reading.inside import messages_inside
from store.structures.consumequeue.numbering import QueueTable
from store.structures.registry import names_of, present
from store.structures.tables.config_file import read_config_file
from store.structures.tables.consumer_offsets import ConsumerOffsets, read_consumer_offsets
from store.structures.tables.fastjson import members
from store.verbs.find.coverage import IndexCoverage, unnamed
from store.verbs.find.places import Place, places_of
from store.verbs.find.scan import Choose, scan_log, with_any_of, with_body, with_text
from store.verbs.segment import open_segment

MOST_KEY_BYTES = 32_767
IsHit = Callable[[StoredMessage], bool]


@dataclass(frozen=True, slots=True)
class Searched:
    """A stretch of the log, and how it was searched: index or scan."""

    start: int
    stop: int
    how: str


@dataclass(slots=True)
class Found:
    """The messages found, and their records; `searched_as` is message id, key, text, body or condition."""

    searched_as: str
    messages: list[StoredMessage] = field(default_factory=list)
    searched: list[Searched] = field(default_factory=list)
    is_cut: bool = False
    records: list[StoredMessage] = field(default_factory=list)

    @classmethod
    def of(cls, searched_as: str, records: list[StoredMessage], is_hit: IsHit, *, outer: bool) -> Found:
        """Return the hits among the messages of these records; with `outer`, the records."""
        messages = records if outer else [one for record in records for one in messages_inside(record, is_hit)]
        return cls(searched_as, messages, records=records)


@checks_arguments
def find(
    root: str | Path, text: str, *, settings: Mapping[str, object] | None = None, most: int = 100
) -> list[StoredMessage]:
    """Find messages by key, unique key, message id or text, in a damaged store or one segment file.

    >>> import tempfile
    >>> from store import Message, find, open_store
    >>> root = f"{tempfile.mkdtemp()}/store"
    >>> with open_store(root, read_only=False) as store:
    ...     result = store.put(Message.of("Orders", "hello", keys=["order-4711"]))
    >>> [message.queue_offset for message in find(root, "order-4711")]
    [0]

    Raises BadRequest for a text that no key can be, NotAStore, StoreIOError.
    """
    folder, fs = reach_store(root)
    layout = make_layout(folder, settings or {}, fs)
    found = fs.look_at(folder)
    if found is not None and found.is_file:
        reader = open_segment(folder, fs)
    else:
        reader = StoreReader.of(layout, fs)
    reader.check_has_broker_files()
    return Finder(reader, layout, settings or {}, fs).find(text, most).messages


class Finder:
    """A search in a store without opening it: it needs the log, and uses index and queues if present.

    use_index    False scans everything
    outer        returns records of several messages as they are
    on_progress  called with the scanned bytes and the bytes to scan
    """

    def __init__(
        self,
        reader: StoreReader,
        layout: StoreLayout,
        settings: Mapping[str, Any],
        fs: Filesystem,
        *,
        use_index: bool = True,
        outer: bool = False,
        on_progress: Callable[[int, int], None] = lambda done_bytes, bytes_in_all: None,
    ) -> None:
        self._reader, self._on_progress, self._outer = reader, on_progress, outer
        self.index = IndexCoverage(reader, layout, settings, fs)
        self._segments = segments = reader.segments()
        self._log = Stretch(segments[0].number, segments[-1].number + segments[-1].size) if segments else Stretch(0, 0)
        listed = _listed_topics(layout, fs)
        self._topics = {topic for topic, _ in reader.queues()} | (listed or set())
        # A lookup needs a topic: without topics the index is useless. A broker indexes no message inside of a record.
        groups = any(one.groups_messages for one in present(names_of(layout, fs)))
        is_indexed = bool(self._topics) and not groups
        self._use_index = use_index and is_indexed
        self._uncovered = self.index.uncovered(*self._log) if self._use_index else [self._log]
        # Without topics.json, the name of a topic whose folder is lost is unknown, and can't be looked up.
        self._may_lack_topics = self._use_index and listed is None
        self.offsets: ConsumerOffsets = _offsets(layout, fs)

    def find(self, text: str, most: int) -> Found:
        """Run steps 1 to 3, and return at most `most` messages."""
        if not text or len(_encoded(text)) > MOST_KEY_BYTES:
            raise BadRequest("give a key, a message id or a text to find")
        by_id = self._at_message_id(text)
        if by_id is not None:
            return Found.of("message id", [by_id], lambda one: True, outer=self._outer)
        found = self._by_keys([text], most)
        if found.messages:
            return found
        wanted = text.encode()
        by_text = self._scan([self._log], with_text(wanted))
        found = self._taken("text", by_text, most, lambda one: wanted in _text_of(one))
        # The index lookup misses rolled-back records, and topics without a queue and an entry in topics.json.
        keyed = [one for one in found.records if _has_key(one, [text])]
        if not keyed:
            return found
        by_key = Found.of("key", keyed, lambda one: _has_key(one, [text]), outer=self._outer)
        return replace(by_key, searched=found.searched, is_cut=found.is_cut)

    def find_body(self, pattern: str, most: int) -> Found:
        """Return records whose decompressed body matches the pattern."""
        try:
            compiled = re.compile(_encoded(pattern))
        except (re.error, OverflowError) as error:
            raise BadRequest(f"no regular expression: {error}") from None
        except RecursionError:
            raise BadRequest("no regular expression: brackets inside brackets without end") from None
        hits = self._scan([self._log], with_body(compiled))
        return self._taken("body", hits, most, lambda one: compiled.search(one.body) is not None)

    def at_places(self, places: Iterable[tuple[int, int]], most: int) -> Found:
        """Return the messages at these pairs of log offset and queue offset, selected by a condition."""
        chosen = list(places)
        records = list(self.at(dict.fromkeys(log_offset for log_offset, _ in chosen[:most])))
        wanted = set(chosen)
        found = Found.of(
            "condition", records, lambda one: (one.log_offset, one.queue_offset) in wanted, outer=self._outer
        )
        found.searched, found.is_cut = self.whole_log(), len(chosen) > most
        return found

    def at(self, log_offsets: Iterable[int]) -> Iterator[StoredMessage]:
        """Yield the records at these log offsets; offsets without a record are skipped."""
        for log_offset in log_offsets:
            message = self._read(log_offset)
            if message is not None:
                yield message

    def related(self, messages: Iterable[StoredMessage], most: int) -> dict[str, list[StoredMessage]]:
        """Run step 4: return all records of each unique key, for the first `most` unique keys."""
        keys = list(islice(dict.fromkeys(one.uniq_key for one in messages if one.uniq_key), most))
        lives: dict[str, list[StoredMessage]] = {key: [] for key in keys}
        for record in self._by_keys(keys, None).messages if keys else ():
            if record.uniq_key in lives:
                lives[record.uniq_key].append(record)
        return lives

    def whole_log(self) -> list[Searched]:
        """Return the whole log, scanned."""
        return [Searched(*self._log, "scan")]

    def places_of(self, message: StoredMessage) -> list[Place]:
        """Return all references to the record in the store."""
        return list(places_of(self._reader, self.index, message))

    def _lost_topics(self) -> set[str]:
        """Return the topics of records without a unit in any queue."""
        table = QueueTable()

        def number(run: Run) -> Iterable[int]:
            table.assign(run.buffer, run.array, run.count, queued_only=False)
            return ()

        for _ in self._scan(unnamed(self._reader, *self._log), number):
            pass
        return {topic for topic, _ in table.names}

    def _at_message_id(self, text: str) -> StoredMessage | None:
        try:
            _, log_offset = decode_message_id(text)
        except BadRequest:
            return None
        message = self._read(log_offset)
        return message if message is not None and message.msg_id == text.upper() else None

    def _by_keys(self, keys: list[str], most: int | None) -> Found:
        """Return records with one of these keys, by index and by scan of the uncovered stretches."""
        if self._may_lack_topics:
            self._topics, self._may_lack_topics = self._topics | self._lost_topics(), False
        places = {place for key in keys for place in self.index.ask(self._topics, key)} if self._use_index else set()
        by_index = (one for one in self.at(sorted(places)) if _has_key(one, keys))
        found = {one.log_offset: one for one in islice(by_index, None if most is None else most + 1)}
        for record in self._scan(self._uncovered, with_any_of(key.encode() for key in keys)):
            if _has_key(record, keys):
                found[record.log_offset] = record
            if most is not None and len(found) > most:
                break
        answer = self._taken("key", (found[place] for place in sorted(found)), most, lambda one: _has_key(one, keys))
        answer.searched = self._parts()
        return answer

    def _scan(self, stretches: Iterable[Stretch], choose: Choose) -> Iterator[StoredMessage]:
        return scan_log(self._reader, stretches, choose, self._on_progress)

    def _taken(self, searched_as: str, records: Iterator[StoredMessage], most: int | None, is_hit: IsHit) -> Found:
        taken = list(islice(records, most))
        is_cut = most is not None and len(taken) == most and next(records, None) is not None
        found = Found.of(searched_as, taken, is_hit, outer=self._outer)
        found.searched, found.is_cut = self.whole_log(), is_cut
        return found

    def _parts(self) -> list[Searched]:
        """Return the log in stretches by index and by scan, in log order."""
        parts, at = [], self._log.start
        for stretch in self._uncovered:
            if at < stretch.start:
                parts.append(Searched(at, stretch.start, "index"))
            parts.append(Searched(*stretch, "scan"))
            at = stretch.stop
        if at < self._log.stop:
            parts.append(Searched(at, self._log.stop, "index"))
        return parts

    def _read(self, log_offset: int) -> StoredMessage | None:
        for segment in self._segments:
            position = log_offset - segment.number
            if 0 <= position <= segment.size - RECORD_MIN_SIZE:
                try:
                    size = int.from_bytes(self._reader.read(segment.path, position, 4), "big")
                    if not RECORD_MIN_SIZE <= size <= segment.size - position:
                        return None
                    message = decode_record(self._reader.read(segment.path, position, size))
                except (DamagedRecord, StoreError):
                    return None
                return message if message.log_offset == log_offset else None
        return None


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"a lone surrogate in {text[:40]!r}; give text that is UTF-8") from None


def _text_of(record: StoredMessage) -> bytes:
    """Return the bytes of a message that a text is searched in."""
    return b"\n".join((record.body, decode_body(record.body, record.sys_flag).data, record.property_text))


def _has_key(record: StoredMessage, keys: list[str]) -> bool:
    """Return whether a record, or a message inside of it (5.x), has one of the keys."""
    if _is_named(record, keys):
        return True
    return bool(record.sys_flag & INNER_BATCH) and any(_is_named(one, keys) for one in messages_inside(record))


def _is_named(message: StoredMessage, keys: list[str]) -> bool:
    return message.uniq_key in keys or any(key in keys for key in message.keys)


def _listed_topics(layout: StoreLayout, fs: Filesystem) -> set[str] | None:
    """Return the topics of topics.json; None without a readable table."""
    try:
        document = read_config_file(layout.config, "topics.json", fs).document
    except StoreError:
        return None
    return set(members(document.get("topicConfigTable"))) if document else None


def _offsets(layout: StoreLayout, fs: Filesystem) -> ConsumerOffsets:
    try:
        return read_consumer_offsets(layout.config, fs)
    except StoreError:
        return {}
