"""Bring the broker's tables into a salvaged store, and other files that a start reads.

    1. config/           each table from its newest copy that parses: the file, the .tmp of a 4.x broker, the .bak
    2. other files       those of config/, and files that are copied as they are; the others are listed, and stay
    3. topics.json       an entry for every queue of the new store and of waiting messages; a database of config/ whose
                         tables are JSON files now is removed, as it would be read in place of them
    4. offsets           those of consumers and of delayed messages moved into the queues of the new store
    5. delayOffset.json  past the messages that the log shows as delivered; the files of the timer, the database of open
                         half messages, and copied files that are not whole (5.x)

Steps 1 and 2 come before the queues are built, as topics.json holds their types. A queue offset has the same message in
both stores. Only a queue's end can be lost, or its beginning expired.

Source: ConfigManager.load, ScheduleMessageService.correctDelayOffset (4.9.8, 5.3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

from store.broker_line import BrokerLine
from store.change.workspace import staging_folder
from store.config import StoreConfig
from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.numbered import some_queue_files
from store.files.store_reader import StoreReader
from store.formats.java import parse_long
from store.formats.message import INNER_BATCH
from store.formats.properties import INNER_BASE
from store.formats.timer import TIMELINE_ON
from store.formats.topics import OPEN_IN_DATABASE, SCHEDULE_TOPIC, TIMER_TOPIC
from store.formats.wording import amount
from store.layout import JSON_FILES, OTHER_QUEUES, OWN_FOLDER, StoreLayout
from store.opened.detect import has_database
from store.structures.delayoffsets.files import FILE_NAME as DELAY_OFFSETS
from store.structures.registry import STRUCTURES, is_of_others, names_of, rooms_with, structure_of
from store.structures.tables.config_file import read_config_file, write_config_file
from store.structures.tables.consumer_offsets import OFFSET_FILES, OFFSET_TABLES
from store.structures.tables.database import RDB, TABLES, database_folders
from store.structures.tables.fastjson import Json, write_fastjson
from store.structures.tables.topics import Attributes, Queue, file_attributes, rebuild_topics, without_attribute
from store.verbs.queue_ends import queue_ends
from store.verbs.rebuild.delay_offsets import plan_delay_offsets
from store.verbs.salvage.databases import OPENED, WAITING, build_database, fires_timeline
from store.verbs.salvage.grade import SalvagedRun
from store.verbs.salvage.sources import find_sources
from store.verbs.salvage.walk import walk_file
from store.verbs.waiting_queues import WAITING_TOPICS, waiting_in_log

TOPICS = "topics.json"
_MADE_ANEW = tuple(name for one in STRUCTURES for name in one.made_anew)
_COPIED = tuple(name for one in STRUCTURES for name in one.copied)
Ends = Mapping[tuple[str, int], tuple[int, int]]
"""Minimum and maximum of each queue."""


@dataclass(slots=True)
class BroughtFile:
    """One file or folder.

    copied_from  empty if nothing could be copied
    remark       why not, or the changes to it
    """

    file: str
    copied_from: str
    remark: str = ""


class ConfigTables:
    """Bring the files of `source` to `target`; without a source only topics.json is made.

    config      of the broker that wrote the old store
    only_known  leave the files that no broker of the line has. The detected line may be too old.
    """

    def __init__(
        self,
        source: StoreLayout | None,
        target: StoreLayout,
        line: BrokerLine,
        config: StoreConfig,
        fs: Filesystem,
        *,
        only_known: bool = False,
    ) -> None:
        self._source, self._target, self.line, self._fs, self._only_known = source, target, line, fs, only_known
        self._config = config
        self._rows: dict[str, BroughtFile] = {}
        self._left: list[str] = []
        self.remarks: list[str] = []
        """Sentences for people on the rebuilt files."""

    @cached_property
    def was_database(self) -> bool:
        """Whether the old queues were in a database alone."""
        if self._source is None:
            return False
        is_told = self._config.queues_in_database or has_database(self._source, self._fs)
        return is_told or _lacks_bases(self._source, self._fs)

    @cached_property
    def are_queues_simple(self) -> bool:
        """Whether topics lose their queue type, as the broker has simple queues alone."""
        return self._is_of_others(OTHER_QUEUES)

    @cached_property
    def fires_timeline(self) -> bool:
        """Whether the timers of the new store belong into a database, and not on a wheel."""
        if not self.line.opens_halves_by_key:
            return False
        try:
            return fires_timeline(self._source, self._config, self._fs)
        except StoreError as error:
            self.remarks.append(f"{error}: timers go on the wheel, unless {TIMELINE_ON}=true is given")
            return False

    @property
    def rows(self) -> list[BroughtFile]:
        """Every examined file."""
        return list(self._rows.values())

    def copy(self) -> None:
        """Run steps 1 and 2."""
        source, target = self._source, self._target.root
        if source is None:
            return
        for name in (one for one in JSON_FILES if one not in _MADE_ANEW):
            self._copy_table(source, name)
        self._leave_attributes()
        known = {one + end for one in (*JSON_FILES, *_MADE_ANEW) for end in ("", ".bak", ".tmp")}
        for entry in self._fs.list_folder(source.config):
            if entry.path.name not in known and not self._leaves(f"config/{entry.path.name}"):
                self._copy_other(entry.path, target / "config" / entry.path.name)
        for entry in self._fs.list_folder(source.root):
            name = entry.path.name
            if name in _COPIED and not self._is_of_others(name):
                self._copy_other(entry.path, target / name)
            elif name != OWN_FOLDER and (remark := self._describe_left(name, source)):
                self._note(name, "", remark)
                structure = structure_of(name)
                self._left += [name] if structure is not None and structure.has_furniture("leave") else []

    def keep_attributes(self, now_ms: int, of_records: Attributes) -> None:
        """Give topics the attributes that records and the old files need, before the queues are built."""
        if self.are_queues_simple:
            return
        attributes = of_records | (file_attributes(self._source, self._fs) if self._source is not None else {})
        self._add_topics(((topic, 0) for topic in attributes), now_ms, attributes)

    def rooms_with(self, kind: str, function: str) -> Iterator[ModuleType]:
        """Return the modules of this name, with this function, in the rooms of the old store's structures."""
        return rooms_with(names_of(self._source, self._fs), kind, function) if self._source is not None else iter(())

    def fit(
        self,
        now_ms: int,
        jumps: Ends = MappingProxyType({}),
        *,
        waiting: Collection[Queue] | None = None,
        names_new_offsets: bool = True,
    ) -> None:
        """Run steps 3 to 5, after the queues are built.

        jumps    the next offset of each bumped queue, without the bump and with it
        waiting  the queues of messages that wait in another topic; None to find them in the log
        names_new_offsets  whether moved records name other records by their new log offsets
        """
        reader = StoreReader(str(self._target.root), self._fs)
        ends = {(one.topic, one.queue_id): (one.min_offset, one.max_offset) for one in queue_ends(reader)}
        self._remove_databases()
        if waiting is None:
            waits = any(topic in WAITING_TOPICS for topic, _ in ends)
            waiting = waiting_in_log(reader) if waits else ()
        self._add_topics([*ends, *waiting], now_ms)
        for name in (*OFFSET_FILES, DELAY_OFFSETS):
            self._move_offsets(name, ends, jumps)
        has_timers = any(topic == TIMER_TOPIC for topic, _ in ends)
        if has_timers and not (self.fires_timeline or self._is_of_others(f"consumequeue/{TIMER_TOPIC}")):
            from store.verbs.rebuild.timer import plan_timer_rebuild

            # A broker does not start on log files of another size.
            config = self._config.with_settings({TIMELINE_ON: False})
            with plan_timer_rebuild(self._target.root, config=config) as change:
                change.apply(keep=False)
                self.remarks += change.remarks
        if any(topic == SCHEDULE_TOPIC for topic, _ in ends):
            with plan_delay_offsets(self._target.root, now_ms) as change:
                change.apply(keep=False)
                behind = [one for one in change.report.levels if one.next_offset != (one.saved_offset or 0)]
            if behind:
                levels = ", ".join(f"level {one.level} at {one.next_offset}" for one in behind)
                self._note(f"config/{DELAY_OFFSETS}", "the log", f"past what was delivered: {levels}")
        has_halves = any(topic == OPEN_IN_DATABASE for topic, _ in ends)
        if has_halves or (has_timers and self.fires_timeline):
            self._fill_database(now_ms, has_halves=has_halves, names_new_offsets=names_new_offsets)
        self._mend_copies()

    def _describe_left(self, name: str, source: StoreLayout) -> str:
        """Return why a file of the old store's root is left; empty if the new store has all of it."""
        known = structure_of(name)
        if known is None or known.newer:
            return "its contents are unknown; it may hold log offsets of the old log"
        room, is_left = known.furniture("leave"), self._is_of_others(name)
        remark: str = "" if room is None else room.describe_left(source, self._fs)
        return f"a {self.line} broker does not read it" if is_left and (remark or room is None) else remark

    def _is_of_others(self, path: str) -> bool:
        """Return whether only other versions of the broker have a file or folder."""
        return self._only_known and is_of_others(path, self.line.name)

    def _leaves(self, path: str) -> bool:
        """Note a file or folder of other versions, and return whether it is one."""
        is_left = self._is_of_others(path)
        if is_left:
            self._note(path, "", f"a {self.line} broker does not read it")
        return is_left

    def _fill_database(self, now_ms: int, *, has_halves: bool, names_new_offsets: bool) -> None:
        """Build the database of open half messages and of timers.

        A broker that starts without it forgets half messages, and delivers timers again. The marks of ended half
        messages have log offsets.
        """
        is_of_line = self.line.opens_halves_by_key
        opens = has_halves and names_new_offsets and is_of_line
        parts = [*([OPENED] if opens else []), *([WAITING] if self.fires_timeline else [])]
        target = self._target.root, self._fs, now_ms
        built, why = build_database(*target, with_timers=self.fires_timeline, with_halves=opens) if parts else ((), "")
        for name in built:
            self._rows[name] = BroughtFile(name, "the log", "; ".join(parts))
        moved = ", as a compacted log has other offsets" if is_of_line and not names_new_offsets else why
        for name in self._left if has_halves and (why or not opens) else ():
            self._note(name, "", f"half messages without an end are forgotten{moved}")
        if why and self.fires_timeline:
            self.remarks.append(f"timers of {TIMER_TOPIC} are not built, and a start delivers them again{why}")

    def _mend_copies(self) -> None:
        """Mend copied files that would keep a broker from starting."""
        target, staging = self._target, staging_folder(self._target.root, "copied")
        for room in rooms_with(names_of(target, self._fs), "copied", "mend_copy"):
            name, mended, remarks = room.mend_copy(target, self._fs, staging)
            self.remarks += remarks
            if mended:
                self._note(name, "", f"{amount(len(mended), 'file')} mended: {', '.join(mended)}")

    def _note(self, file: str, copied_from: str, remark: str) -> None:
        row = self._rows.setdefault(file, BroughtFile(file, copied_from))
        row.copied_from = row.copied_from or copied_from
        row.remark = "; ".join(filter(None, (row.remark, remark)))

    def _copy_table(self, source: StoreLayout, name: str) -> None:
        copied_from, remark = "", ""
        try:
            file = read_config_file(source.config, name, self._fs)
            copy = file.best(self.line)
            if file.is_absent or self._leaves(f"config/{name}"):
                return
            if copy is not None:
                made = write_fastjson(copy.document).encode() if file.is_in_database else None
                write_config_file(self._target.config, name, made or self._fs.read_file(copy.path), self._fs)
                copied_from = copy.path.name
            if copy is not file.main:
                remark = f"{name} is {file.main.state}"
        except StoreError as error:
            remark = str(error)
        self._note(f"config/{name}", copied_from, remark)

    def _leave_attributes(self) -> None:
        """Remove attributes of topics that the broker does not know, and queue types if all are simple."""
        for one in STRUCTURES:
            is_unknown = self._only_known and self.line.name not in one.lines
            if one.attribute is not None and (is_unknown or one.groups_messages):
                document = read_config_file(self._target.config, TOPICS, self._fs).main.document
                simple, topics = without_attribute(document, one.attribute[0])
                if topics and (is_unknown or self.are_queues_simple):
                    self._write(TOPICS, write_fastjson(simple))
                    self._note(f"config/{TOPICS}", "", f"{one.attribute[0]} is left out of {', '.join(topics)}")

    def _copy_other(self, source: Path, target: Path) -> None:
        name = str(target.relative_to(self._target.root))
        try:
            _copy_tree(source, target, self._fs)
        except StoreError as error:
            self._note(name, "", str(error))
        else:
            self._note(name, source.name, "")

    def _write(self, name: str, text: str) -> None:
        self._fs.unlink(self._target.config / name)
        write_config_file(self._target.config, name, text.encode(), self._fs)

    def _remove_databases(self) -> None:
        config, fs = self._target.config, self._fs
        holders = [(name, one) for name in TABLES for one in database_folders(config, name, fs)]
        kept = {one for name, one in holders if not fs.exists(config / name)}
        for folder in {one for _, one in holders} - kept:
            fs.remove_tree(folder)
            self._rows.pop(f"config/{folder.name}", None)
            if folder.name == RDB:
                self._note(f"config/{RDB}", RDB, "its tables are JSON files now: start with configManagerVersion=v1")

    def _add_topics(
        self, queues: Iterable[Queue], now_ms: int, attributes: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    ) -> None:
        copy = read_config_file(self._target.config, TOPICS, self._fs).best(self.line)
        table = rebuild_topics(queues, copy, self.line, now_ms, attributes)
        added = [one for one in table.entries if one.origin != "kept"]
        if added:
            self._write(TOPICS, table.text)
            self._note(f"config/{TOPICS}", "the queues", f"{amount(len(added), 'topic')} added or widened")

    def _move_offsets(self, name: str, ends: Ends, jumps: Ends) -> None:
        document = read_config_file(self._target.config, name, self._fs).main.document
        moved: list[str] = []

        def fit(what: str, topic: str, queue_id: int, offset: Json) -> Json:
            if not isinstance(offset, int) or offset < 0:
                return offset
            low, high = ends.get((topic, queue_id), (0, 0))
            fitted = min(max(offset, low), high)
            before, after = jumps.get((topic, queue_id), (high, high))
            fitted = after if fitted >= before else fitted
            if fitted != offset:
                moved.append(f"{what} from {offset} to {fitted} of {topic}/{queue_id}")
            return fitted

        for table in OFFSET_TABLES:
            found = document.get(table)
            if isinstance(found, dict):
                document[table] = _fitted(found, fit)
        if moved:
            self._write(name, write_fastjson(document))
            self._note(
                f"config/{name}", "", f"{amount(len(moved), 'offset')} moved into the queues: {', '.join(moved)}"
            )


def _lacks_bases(source: StoreLayout, fs: Filesystem) -> bool:
    """Return whether all queue files are lost, and a record of several messages has no INNER_BASE."""
    if any(any(some_queue_files(folder, fs)) for folder in source.queue_parents):
        return False
    for file, start in find_sources(source.root, fs, source.commitlogs_elsewhere):
        for piece in walk_file(file, start):
            if isinstance(piece, SalvagedRun):
                rows = np.flatnonzero(piece.run.columns.sys_flag & INNER_BATCH).tolist()
                if any(INNER_BASE not in piece.run.properties(row) for row in rows):
                    return True
    return False


def _fitted(table: dict[str, Json] | dict[int, Json], fit: Callable[[str, str, int, Json], Json]) -> Json:
    """Move each offset: by topic@group and queue id, by topic@group of a light queue, or by delay level."""
    fitted: dict[Any, Json] = {}
    for key, value in table.items():
        topic, _, group = str(key).partition("@")
        level = parse_long(str(key))
        if isinstance(value, dict):
            queues: dict[Any, Json] = {
                one: fit(group, topic, parse_long(str(one)) or 0, offset) for one, offset in value.items()
            }
            fitted[key] = queues
        elif level is not None:
            fitted[key] = fit(f"level {level}", SCHEDULE_TOPIC, level - 1, value)
        else:
            fitted[key] = fit(group, topic, 0, value)
    return fitted


def _copy_tree(source: Path, target: Path, fs: Filesystem) -> None:
    """Copy a file, or a folder with all that is in it."""
    found = fs.look_at(source)
    if found is not None and found.is_folder:
        fs.make_folder(target)
        for entry in fs.list_folder(source):
            _copy_tree(entry.path, target / entry.path.name, fs)
        fs.fsync_folder(target)
    elif found is not None:
        fs.require_file(source)
        fs.make_folder(target.parent)
        file = fs.create_file(target, found.size, reserved=0)
        fs.copy_written(source, file, found.size)
        fs.fdatasync(file)
