"""Reviews the tables under config/: the file that a broker would load, and the entries it would lose.

Findings, each with advice:

    lost          the file is damaged and has no .bak: a broker starts with an empty table
    refused       file and .bak are damaged: a broker does not start
    backup        a broker loads .bak, which is older than the file was
    newer-copy    .tmp parses and is newer than the file that a broker loads
    bad-key       a key of the offsets without exactly one @, which a broker's helpers skip
    outside       a consumer offset beyond its queue
    no-topic      a topic of the store without an entry in topics.json
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from store.broker_line import BrokerLine
from store.files.filesystem import Filesystem
from store.structures.tables.config_file import ConfigFile, Load, read_config_file
from store.structures.tables.consumer_offsets import OFFSET_FILES, offsets_of
from store.structures.tables.fastjson import members
from store.structures.tables.topics import Queue, needs_no_entry


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """One fault of a table. `code` and `subject` select the advice."""

    kind: str
    file: str
    detail: str
    code: str
    subject: tuple[object, ...] = ()


def review_config(
    files: Iterable[ConfigFile],
    line: BrokerLine,
    topics: Iterable[str],
    max_offsets: Mapping[Queue, int],
) -> Iterator[ConfigFinding]:
    """Yield findings on all tables; `topics` are the store's, `max_offsets` those of its queues."""
    for file in files:
        yield from _review_copies(file, line)
        if file.name in OFFSET_FILES:
            yield from _review_offsets(file, max_offsets)
        if file.name == "topics.json":
            yield from _review_topics(file, topics)


def review_loading(folder: Path, names: Iterable[str], line: BrokerLine, fs: Filesystem) -> list[ConfigFinding]:
    """Return findings on tables of these names that a broker would not load from their own file."""
    found = (one for name in names for one in _review_copies(read_config_file(folder, name, fs), line))
    return [one for one in found if one.kind != "newer-copy"]


def _review_copies(file: ConfigFile, line: BrokerLine) -> Iterator[ConfigFinding]:
    reason = f"{file.main.path.name} is {file.main.state}" + (f" ({file.main.reason})" if file.main.reason else "")
    best = file.best(line)
    is_topics = file.name == "topics.json"
    subject = (best.path.name,) if best is not None else ()
    if best is not None:
        code = "restore-topics" if is_topics else "restore-table"
    else:
        code = "rebuild-topics" if is_topics else "write-table"
    match file.load:
        case Load.LOST:
            yield ConfigFinding("lost", file.name, f"{reason}; a broker {file.load.value}", code, subject)
        case Load.REFUSED:
            detail = f"{reason}, and so is its .bak; a broker {file.load.value}"
            yield ConfigFinding("refused", file.name, detail, code, subject)
        case Load.BACKUP:
            yield ConfigFinding("backup", file.name, f"{reason}; a broker {file.load.value}", code, subject)
    loaded = file.loaded
    if best is not None and best is file.temporary and loaded is not best:
        yield ConfigFinding(
            "newer-copy", file.name, f"{best.path.name} is newer than what a broker loads", code, subject
        )


def _review_offsets(file: ConfigFile, max_offsets: Mapping[Queue, int]) -> Iterator[ConfigFinding]:
    for key in members(file.document.get("offsetTable")):
        if key.count("@") != 1:
            detail = f"{key!r} does not name one topic and one group"
            yield ConfigFinding("bad-key", file.name, detail, code="remove-entry")
    for (topic, group), queues in sorted(offsets_of(file.document).items()):
        for queue_id, offset in sorted(queues.items()):
            top = max_offsets.get((topic, queue_id), 0)
            if offset > top:
                detail = f"{group} is at {offset} of {topic}/{queue_id}, whose maximum is {top}"
                # A queue that is not there has no offset to be reset to.
                code = "reset-offset" if (topic, queue_id) in max_offsets else "remove-entry"
                yield ConfigFinding("outside", file.name, detail, code, (group, topic, queue_id))


def _review_topics(file: ConfigFile, topics: Iterable[str]) -> Iterator[ConfigFinding]:
    known = members(file.document.get("topicConfigTable")).keys()
    for topic in sorted(topic for topic in {*topics} - known if not needs_no_entry(topic)):
        detail = f"{topic} has messages but no entry"
        yield ConfigFinding("no-topic", file.name, detail, code="rebuild-topics")
