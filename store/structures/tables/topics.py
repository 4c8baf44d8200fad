"""topics.json rebuilt from a store: the topics and queues in its log and consume queues.

A topic in the newest readable copy keeps its entry, with queue counts raised to the existing queues. A topic in no copy
gets the broker's defaults. Topics that a broker creates at every start get no entry, unless a copy has one.

Source: TopicConfigManager, TopicConfig (4.9.8, 5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from store.broker_line import BrokerLine
from store.files.filesystem import Filesystem
from store.formats.message import INNER_BATCH
from store.formats.run import Run
from store.formats.topics import (
    BROKERS_OWN,
    HALF_TOPICS,
    OP_TOPICS,
    REVIVE_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    shares_records,
)
from store.layout import StoreLayout
from store.structures.registry import STRUCTURES, names_of, rooms_with
from store.structures.tables.config_file import ConfigCopy, read_config_file
from store.structures.tables.fastjson import Json, member, members, write_fastjson

Queue = tuple[str, int]
Attributes = dict[str, dict[str, str]]
"""Attributes by topic."""

PERM_READ_WRITE = 6
DEFAULT_QUEUE_COUNT = 1
BUILT_IN = ("SELF_TEST_TOPIC", "TBW102", "BenchmarkTest", "OFFSET_MOVED_EVENT", SCHEDULE_TOPIC)
_WITHOUT_ENTRY = {*BUILT_IN, *HALF_TOPICS, *OP_TOPICS, TIMER_TOPIC}
_VALUES = dict(one.attribute for one in STRUCTURES if one.attribute is not None)


def needs_no_entry(topic: str) -> bool:
    """Return whether brokers use the topic also without an entry in topics.json.

    A start adds most of them. A 4.9 broker adds the half topic at its first check and never the op topic; a 5.5 broker
    with its tables in a RocksDB keeps rmq_sys_wheel_timer in memory only (TopicConfigManager.init).
    """
    return topic in _WITHOUT_ENTRY or topic.startswith(REVIVE_PREFIX)


def topic_attribute(folder: Path, fs: Filesystem, name: str) -> dict[str, str]:
    """Return an attribute's value (5.x) by topic, from the topics.json that a broker would load."""
    return attribute_in(read_config_file(folder, "topics.json", fs).document, name)


def attribute_in(document: Mapping[str, Json], name: str) -> dict[str, str]:
    """Return the attribute's value of every topic with that attribute in a topics.json."""
    table = members(document.get("topicConfigTable"))
    values = {topic: member(member(entry, "attributes"), name) for topic, entry in table.items()}
    return {topic: value for topic, value in values.items() if isinstance(value, str)}


def without_attribute(document: Mapping[str, Json], name: str) -> tuple[dict[str, Json], list[str]]:
    """Return a topics.json without an attribute, and the topics that had it."""
    entries, topics = members(document.get("topicConfigTable")), list(attribute_in(document, name))
    for topic in topics:
        entry = members(entries[topic])
        attributes = {key: value for key, value in members(entry["attributes"]).items() if key != name}
        entries[topic] = {**entry, "attributes": attributes}
    return {**document, "topicConfigTable": entries}, topics


def topic_queues(folder: Path, fs: Filesystem) -> set[Queue]:
    """Return the write queues of the topics in topics.json, except topics that every broker creates."""
    table = members(read_config_file(folder, "topics.json", fs).document.get("topicConfigTable"))
    return {
        (topic, queue_id)
        for topic, entry in table.items()
        if topic not in BUILT_IN
        for queue_id in range(_queue_count(entry))
    }


def deleted_topics(folder: Path, fs: Filesystem, topics: Iterable[str]) -> set[str]:
    """Return those of the topics that a readable topics.json lacks, except topics of the broker's own."""
    file = read_config_file(folder, "topics.json", fs)
    if file.loaded is None:
        return set()
    known = members(file.document.get("topicConfigTable")).keys() | BROKERS_OWN
    return {topic for topic in topics if topic not in known and not needs_no_entry(topic)}


def refused_attributes(folder: Path, fs: Filesystem) -> dict[str, str]:
    """Return a clause for each topic in topics.json with an attribute that a 5.3 broker refuses.

    Source: CleanupPolicyUtils.getDeletePolicy, QueueTypeUtils.getCQType (5.3.3).
    """
    path = folder / "topics.json"
    if not (fs.exists(path) and any(name.encode() in fs.read_file(path) for name in _VALUES)):
        return {}
    table = members(read_config_file(folder, "topics.json", fs).document.get("topicConfigTable"))
    clauses = {topic: _refused(members(member(entry, "attributes"))) for topic, entry in table.items()}
    return {topic: clause for topic, clause in clauses.items() if clause}


def _refused(attributes: dict[str, Json]) -> str:
    """Return a clause on the first attribute with an invalid value, empty without one."""
    for name, values in _VALUES.items():
        if name in attributes and attributes[name] not in values:
            return f"{name} is {attributes[name]!r}, expected {' or '.join(values)}"
    return ""


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """One topic of the rebuilt table. `origin` is the source of its entry, or the change to it."""

    topic: str
    queue_count: int
    origin: str


@dataclass(frozen=True, slots=True)
class TopicsTable:
    """The rebuilt table: its entries for people, and the text of the file."""

    entries: list[TopicEntry]
    text: str


def file_attributes(layout: StoreLayout, fs: Filesystem) -> Attributes:
    """Return the attributes of topics that the files of the store's structures require (5.x)."""
    found: Attributes = {}
    for room in rooms_with(names_of(layout, fs), "infer", "infer_attributes"):
        for topic, attributes in room.infer_attributes(layout, fs).items():
            found.setdefault(topic, {}).update(attributes)
    return found


def record_attributes(run: Run) -> Attributes:
    """Return the attributes of topics that a run's records of several messages require (5.x)."""
    if not (run.columns.sys_flag & INNER_BATCH).any():
        return {}
    rooms = (one.furniture("infer") for one in STRUCTURES if one.groups_messages)
    return {key: value for room in rooms if room is not None for key, value in room.attributes_of_records(run).items()}


def rebuild_topics(
    queues: Iterable[Queue],
    copy: ConfigCopy | None,
    line: BrokerLine,
    now_ms: int,
    attributes: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> TopicsTable:
    """Return the table for these queues.

    copy        the newest readable topics.json, None without one
    attributes  those that a topic must have
    """
    document = copy.document if copy is not None else {}
    table = members(document.get("topicConfigTable"))
    entries = [TopicEntry(name, _queue_count(entry), "kept") for name, entry in table.items()]
    for topic, count in sorted(_queue_counts(queues).items()):
        known = table.get(topic)
        if known is None and needs_no_entry(topic):
            continue
        wanted = {**members(member(known, "attributes")), **attributes.get(topic, {})}
        is_wider = _queue_count(known) < count
        if known is not None and not is_wider and wanted == members(member(known, "attributes")):
            continue
        entry = members(known) if known is not None else _new_entry(topic, line)
        if is_wider:
            entry |= {"readQueueNums": count, "writeQueueNums": count}
        table[topic] = entry | ({"attributes": wanted} if topic in attributes else {})
        entries = [one for one in entries if one.topic != topic]
        origin = "more queues exist" if is_wider else "its files need an attribute"
        count = _queue_count(table[topic])
        entries.append(TopicEntry(topic, count, origin if known is not None else "found in the store"))
    version = _version(document.get("dataVersion"), line, now_ms)
    text = write_fastjson({"dataVersion": version, "topicConfigTable": table})
    return TopicsTable(sorted(entries, key=lambda one: one.topic), text)


def _queue_counts(queues: Iterable[Queue]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for topic, queue_id in queues:
        if shares_records(topic) or queue_id < 0:
            continue
        counts[topic] = max(counts.get(topic, DEFAULT_QUEUE_COUNT), queue_id + 1)
    return counts


def _queue_count(entry: Json) -> int:
    count = member(entry, "writeQueueNums")
    return count if isinstance(count, int) else 0


def _new_entry(topic: str, line: BrokerLine) -> dict[str, Json]:
    fields: dict[str, Json] = {} if line.renames_config else {"attributes": {}}
    return {
        **fields,
        "order": False,
        "perm": PERM_READ_WRITE,
        "readQueueNums": 0,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": 0,
        "writeQueueNums": 0,
    }


def _version(old: Json, line: BrokerLine, now_ms: int) -> Json:
    """Return a version above the old one, so that name servers accept the table."""
    counter = member(old, "counter")
    state: dict[str, Json] = {} if line.renames_config else {"stateVersion": 0}
    return {"counter": (counter if isinstance(counter, int) else 0) + 1, **state, "timestamp": now_ms}
