"""The broker's tables under config/ and a store: review, entries, and a rebuilt topics.json.

The queues of a store are those with a folder, and those that a walk of the log finds: consumequeue/ may be lost too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from store.broker_line import BrokerLine
from store.change.change import Change, PlanReport
from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.topics import shares_records
from store.formats.wording import amount
from store.layout import StoreLayout
from store.structures.commitlog.message_batch import MessageRows
from store.structures.commitlog.scan import ScanRules
from store.structures.commitlog.slices import readable_runs, whole_segment
from store.structures.consumequeue.queue_set import QueueState
from store.structures.tables.config_file import ConfigFile, read_config_file, read_config_files, require_in_file
from store.structures.tables.fastjson import Json, members
from store.structures.tables.review import ConfigFinding, review_config
from store.structures.tables.topics import (
    Attributes,
    Queue,
    TopicEntry,
    file_attributes,
    rebuild_topics,
    record_attributes,
)
from store.verbs.queue_ends import QueueEnd, queue_ends
from store.verbs.waiting_queues import waiting_queues

TOPICS_FILE = "topics.json"
_QUEUE_COLUMNS = pa.schema([("topic", pa.string()), ("queue_id", pa.int32())])

OnProgress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One entry of a table, as a broker would load it. `section` is the member that holds it."""

    file: str
    loaded_from: str
    section: str
    name: str
    value: Json


@dataclass
class TopicsPlan(PlanReport):
    """The entries of a new topics.json."""

    topic_count: int
    added_count: int
    topics: list[TopicEntry]


@dataclass(frozen=True, slots=True)
class ConfigReview:
    """The tables with a file, and their findings."""

    files: list[ConfigFile]
    findings: list[ConfigFinding]


def review_tables(
    layout: StoreLayout,
    reader: StoreReader,
    line: BrokerLine,
    fs: Filesystem,
    recovered: Callable[[], Iterable[QueueState]],
    ends: list[QueueEnd] | None = None,
) -> ConfigReview:
    """Review every table as a broker would load it.

    recovered  returns the queues as a recovery leaves them; called only if an offset is beyond the queue on disk,
               as after a crash, which may leave the newest entries unwritten
    ends       avoids a second reading of the queues' ends
    """
    queues = {(end.topic, end.queue_id): end for end in (ends if ends is not None else queue_ends(reader))}
    files = read_config_files(layout.config, fs)
    topics = {topic for (topic, _), end in queues.items() if end.max_offset and not shares_records(topic)}

    max_offsets = {queue: end.max_offset for queue, end in queues.items()}
    found = list(review_config(files, line, topics, max_offsets))
    if any(one.kind == "outside" for one in found):
        with contextlib.suppress(StoreError):
            for queue in recovered():
                key = queue.topic, queue.queue_id
                max_offsets[key] = max(max_offsets.get(key, 0), queue.max_offset)
            found = list(review_config(files, line, topics, max_offsets))
    return ConfigReview(files, found)


def table_entries(files: list[ConfigFile]) -> Iterator[TableEntry]:
    """Yield every entry of the tables as a broker would load them."""
    for file in files:
        copy = file.loaded
        for section, table in file.document.items():
            entries = members(table) if isinstance(table, dict) and section != "dataVersion" else {"": table}
            for name, value in entries.items():
                yield TableEntry(file.name, copy.path.name if copy is not None else "", section, name, value)


def topics_of_log(reader: StoreReader, on_progress: OnProgress = lambda done: None) -> tuple[set[Queue], Attributes]:
    """Return the queues of the log's records and waiting messages, and attributes that records require.

    The walk goes on after damage; `reader` records it.
    """
    found: set[Queue] = set()
    attributes: Attributes = {}
    done = 0
    for segment in reader.segments():
        for run in readable_runs(reader, whole_segment(segment), ScanRules()):
            batch = MessageRows(run.buffer, run.file_start, run.columns).batch(_QUEUE_COLUMNS)
            pairs = pa.table(batch).group_by(_QUEUE_COLUMNS.names).aggregate([])
            found.update(zip(*(pairs.column(name).to_pylist() for name in _QUEUE_COLUMNS.names), strict=True))
            found |= waiting_queues(run)
            attributes |= record_attributes(run)
            on_progress(done + run.end - segment.number)
        done += segment.size
    return found, attributes


def plan_topics(
    layout: StoreLayout,
    reader: StoreReader,
    line: BrokerLine,
    fs: Filesystem,
    *,
    staging: Path,
    now_ms: int,
    on_progress: OnProgress = lambda done: None,
) -> Change[TopicsPlan]:
    """Plan a new topics.json. The change is empty if no entry would change."""
    folders = set(reader.queues())
    with_folder = {topic for topic, _ in folders}
    queues, attributes = topics_of_log(reader, on_progress)
    # A topic's folder decides before its records: a broker does not start on a folder of another type.
    of_records = {topic: one for topic, one in attributes.items() if topic not in with_folder}
    file = read_config_file(layout.config, TOPICS_FILE, fs)
    require_in_file(file)
    table = rebuild_topics(queues | folders, file.best(line), line, now_ms, of_records | file_attributes(layout, fs))
    added = [entry for entry in table.entries if entry.origin != "kept"]
    report = TopicsPlan(len(table.entries), len(added), table.entries)
    change = Change("config rebuild-topics", layout.root, fs, report=report, staging=staging)
    if added or file.main is not file.best(line):
        reason = f"{amount(len(added), 'topic')} added or widened, {len(table.entries) - len(added)} kept"
        change.publish_bytes(layout.config / TOPICS_FILE, table.text.encode(), reason)
    return change
