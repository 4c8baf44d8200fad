"""Recognises a folder before anything is opened: store or not, broker line, settings.

A store of a broker newer than the known ones is read, and never changed. Sizes are inferred from the files (sizes.py),
delays from delayed messages (delays.py). A setting that the user gives comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from store.broker_line import LINE_4_9, LINE_5_3, LINE_5_5, BrokerLine, broker_line
from store.config import StoreConfig, check_settings
from store.errors import BadRequest, ForeignFile, NotAStore, UnsupportedFormat
from store.files.filesystem import Entry, Filesystem
from store.files.numbered import numbered_files, odd_size, segments_of
from store.files.segment_folders import MEMBER_PATHS, find_member, member_log
from store.formats.checkpoint_page import CHECKPOINT_SIZE, CheckpointPage, decode_checkpoint
from store.formats.wording import amount
from store.layout import NAMES_OF_5, QUEUE_SETTINGS, StoreLayout, parse_segment_name
from store.opened.checkpoint import read_checkpoint_file
from store.opened.delays import DELAY_LEVELS, describe_inferred_delays, infer_delay_levels
from store.opened.sizes import SEGMENT_SIZE, assumed_sizes, infer_sizes
from store.structures.consumequeue.other_queues import NO_OTHERS, OtherQueues
from store.structures.registry import (
    NEWEST,
    STRUCTURES,
    UNKNOWN_DATABASE,
    names_of,
    present,
    refusing,
    rooms_with,
    settings_told,
    unknown_names,
)


class FoundStore(NamedTuple):
    """A store before it is opened: where its parts are, its settings, the broker line whose rules apply."""

    layout: StoreLayout
    config: StoreConfig
    line: BrokerLine
    assumed: tuple[str, ...] = ()
    """Settings that were assumed or inferred and may be wrong, as sentences for people."""
    others: OtherQueues = NO_OTHERS
    """Topics whose queues are of another type (5.x)."""
    gives_delays: bool = False
    """Whether the user gave messageDelayLevel."""
    finds_light: bool = False
    """Whether the records decide on light queues, if the config has none."""
    gives_size: bool = False
    """Whether the user gave the segment size."""
    odd_size: str = ""
    """The doubt about the segment size, as a clause for people."""


def find_store(
    layout: StoreLayout, settings: Mapping[str, object], fs: Filesystem, *, compat: str | None = None
) -> FoundStore:
    """Return the store at `layout`; settings and line that are not given are read off its files."""
    line = broker_line(compat) if compat is not None else detect_line(layout, fs)
    config = infer_config(layout, settings, fs)
    assumed = (*assumed_sizes(layout, config, settings, fs), *describe_inferred_delays(config, settings))
    others = find_other_queues(layout, config, fs)
    of_records = finds_light(layout, settings, fs)
    gives_size = SEGMENT_SIZE in settings
    odd = odd_size(segments_of(layout, fs)) if not gives_size else ""
    return FoundStore(layout, config, line, assumed, others, DELAY_LEVELS in settings, of_records, gives_size, odd)


class OpenRequest(NamedTuple):
    """The options of open_store that do not depend on reading or writing."""

    layout: StoreLayout
    settings: Mapping[str, object]
    fs: Filesystem
    clock: Callable[[], int]
    compat: str | None
    progress: Callable[[int, int], None] | None

    def find(self) -> FoundStore:
        """Return the store before it is opened: its layout, settings and broker line."""
        return find_store(self.layout, self.settings, self.fs, compat=self.compat)


def finds_light(layout: StoreLayout, settings: Mapping[str, object], fs: Filesystem) -> bool:
    """Return whether records decide on light queues, as no setting or database does."""
    rooms = rooms_with(names_of(layout, fs), "infer", "may_hold_light")
    return "enableMultiDispatch" not in settings and not any(room.may_hold_light(layout, fs) for room in rooms)


def holds_light(layout: StoreLayout, config: StoreConfig, fs: Filesystem) -> bool:
    """Return whether a database beside queue files has the light queues, and there are no files of them."""
    rooms = rooms_with(names_of(layout, fs), "infer", "may_hold_light")
    return config.has_named_queues_in_database and any(room.may_hold_light(layout, fs) for room in rooms)


def lacks_light_files(layout: StoreLayout, line: BrokerLine, fs: Filesystem) -> bool:
    """Return whether queues have files, and none that shares records: 5.x may have written none.

    4.9 gives no queue offsets in queues that it does not write.
    """
    if line is LINE_4_9 or any(one.shares_records for one in present(names_of(layout, fs))):
        return False
    return any(fs.list_folder(layout.consumequeue))


def find_other_queues(layout: StoreLayout, config: StoreConfig, fs: Filesystem) -> OtherQueues:
    """Return the topics with queues of another type than plain; none if queues are in a database."""
    if not config.queues_in_database:
        for room in rooms_with(names_of(layout, fs), "queue_types", "other_queues"):
            found: OtherQueues = room.other_queues(layout, config, fs)
            return found
    return NO_OTHERS


def queue_type_faults(layout: StoreLayout, fs: Filesystem) -> list[str]:
    """Describe folders with queues of another type than in topics.json: a 5.3 broker does not start."""
    rooms = rooms_with(names_of(layout, fs), "queue_types", "mismatched_topics")
    return [fault for room in rooms for fault in room.mismatched_topics(layout, fs)]


def refuse_wrong_queue_types(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise UnsupportedFormat if a queue's type would keep a broker from starting."""
    for fault in queue_type_faults(layout, fs):
        reason = f"a broker does not start with this store: {fault}"
        raise UnsupportedFormat(reason, file=layout.config / "topics.json", code="queue-type")


def require_store(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise NotAStore unless the folder has a part of a broker's store.

    Raise ForeignFile if a folder or a FIFO is at the path of a broker's file, or a file at the path of a folder.
    """
    root = layout.root
    found = fs.look_at(root)
    if found is None:
        raise NotAStore.absent(root)
    if not found.is_folder:
        raise NotAStore.for_file(root)
    for folder in (*layout.commitlogs, layout.consumequeue, layout.index):
        fs.require_folder(folder)
    for file in (layout.lock, layout.checkpoint, layout.abort):
        fs.require_file(file)
    if not any(fs.exists(folder) for folder in (*layout.commitlogs, layout.consumequeue, layout.checkpoint)):
        raise NotAStore.empty(root)


def require_log(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise NotAStore if the commit log is empty and queues are not: the log's disk may not be mounted."""
    if segments_of(layout, fs):
        return
    queues = [
        queue.path
        for topic in fs.list_folder(layout.consumequeue)
        if topic.is_folder
        for queue in _queue_folders(topic, fs)
    ]
    if queues:
        raise NotAStore(
            f"the commit log is empty, but consumequeue/ holds files of {amount(len(queues), 'queue')}",
            file=layout.commitlog,
            code="empty-log",
        )


def _queue_folders(topic: Entry, fs: Filesystem) -> list[Entry]:
    """Return the folders of a topic that hold queue files."""
    return [queue for queue in fs.list_folder(topic.path) if queue.is_folder and numbered_files(queue.path, fs)]


def is_absent_or_empty(layout: StoreLayout, fs: Filesystem) -> bool:
    """Return whether a new store may be created here."""
    found = fs.look_at(layout.root)
    return found is None or (found.is_folder and not fs.list_folder(layout.root))


def refuse_unchangeable(
    layout: StoreLayout, fs: Filesystem, verb: str, settings: Mapping[str, object] | None = None
) -> None:
    """Raise UnsupportedFormat if the store has a structure that the verb would leave inconsistent.

    verb      its word in store.structures.registry
    settings  the given settings; with them the store must have no structure of an unknown use
    """
    for file, found in newer_structures(layout, fs):
        raise UnsupportedFormat(
            f"{found}: the store is read, checked and salvaged, and not changed",
            file=file,
            hint="change it with the tools of the broker that wrote it, or move a damaged file out of the store",
        )
    for one in refusing(names_of(layout, fs), verb):
        guard = one.furniture("guard")
        if guard is not None:
            guard.refuse(layout, fs)
    if settings is not None:
        for room in rooms_with(names_of(layout, fs), "guard", "require_known"):
            room.require_known(layout, fs, settings)


def refuse_links(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise ForeignFile if a folder of the store is a link, or a segment is no file.

    A change through a link would write outside of the store.
    """
    own = (layout.consumequeue, layout.consumequeue_ext, *layout.queue_parents, layout.index)
    for folder in own if layout.commitlogs_elsewhere else (layout.commitlog, *own):
        if fs.is_link(folder):
            other_way = ", or name it by storePathCommitLog" if folder == layout.commitlog else ""
            raise ForeignFile(
                "a link, where a folder of the store is expected: the store is read, and not changed",
                file=folder,
                hint=f"bind-mount the folder that it leads to in its place{other_way}",
            )
    _require_segment_files(layout, fs)


def _require_segment_files(layout: StoreLayout, fs: Filesystem) -> None:
    """Raise ForeignFile if a segment is neither file nor folder: its link may lead to a lost disk."""
    for folder in layout.commitlogs:
        for entry in fs.list_folder(folder):
            is_special = not (entry.is_file or entry.is_folder)
            if is_special and parse_segment_name(entry.path.name) is not None:
                raise ForeignFile(
                    f"{entry.kind}, where a segment is expected: the store is read, and not changed",
                    file=entry.path,
                    hint="restore its target, or move it out of the store",
                )


def newer_structures(layout: StoreLayout, fs: Filesystem) -> Iterator[tuple[Path, str]]:
    """Yield path and description of each structure that is newer than the known brokers."""
    names = names_of(layout, fs)
    for one in (one for one in present(names) if one.newer):
        for name in names.matching(one.traces[0]):
            yield (layout.root / one.traces[0].path).with_name(name), one.newer
    for name in unknown_names(names, databases=True):
        yield layout.root / name, UNKNOWN_DATABASE
    found = fs.look_at(layout.checkpoint)
    if found is not None and not found.is_folder:
        page = _checkpoint(layout, fs)
        # In a 4.9 store the rest of the checkpoint is damage, which no broker reads, as it is after fields that no
        # broker writes.
        if page.rest and page.is_possible and next(traces_of_5(layout, fs), None) is not None:
            yield layout.checkpoint, "fields in the checkpoint that 5.5 does not know"
    for room in rooms_with(names, "newer", "newer"):
        yield from room.newer(layout, fs)


def detect_line(layout: StoreLayout, fs: Filesystem) -> BrokerLine:
    """Return the newest line that left a trace in the store, else 4.9."""
    if next(traces_of_5_5(layout, fs), None):
        return LINE_5_5
    return LINE_5_3 if next(traces_of_5(layout, fs), None) else LINE_4_9


def traces_of_5_5(layout: StoreLayout, fs: Filesystem) -> Iterator[str]:
    """Yield each trace of a broker of 5.4 or later, as a clause for people."""
    names, page = names_of(layout, fs), _checkpoint(layout, fs)
    # 5.5 writes the offset of queue files with their time, and has neither without queue files.
    is_of_older = page.logics_ms > 0 and not page.logics_log_offset
    for one in STRUCTURES:
        if one.lines == NEWEST:
            found = [trace for trace in one.traces if names.has(trace) and not (trace.of_topic and is_of_older)]
            yield from (f"{trace.path} is there" for trace in found if not trace.holds)
            yield from (f"{trace.path} has {trace.holds.decode()}*" for trace in found if trace.holds)
    if page.logics_log_offset and page.is_possible and not page.rest and next(traces_of_5(layout, fs), None):
        yield "the checkpoint has 5.5's offset"


def traces_of_5(layout: StoreLayout, fs: Filesystem) -> Iterator[str]:
    """Yield each trace of a 5.x broker, as a clause for people."""
    page = _checkpoint(layout, fs)
    if page.master_flushed_offset or page.confirm_log_offset:
        yield "the checkpoint has 5.x's offsets"
    if fs.exists(layout.abort) and fs.stat(layout.abort).st_size:
        yield "abort holds a process id"
    for room in rooms_with(names_of(layout, fs), "infer", "traces_of_5"):
        yield from room.traces_of_5(layout, fs)
    yield from (f"{name} is there" for name in NAMES_OF_5 if fs.exists(layout.root / name))


def _checkpoint(layout: StoreLayout, fs: Filesystem) -> CheckpointPage:
    """Return the checkpoint's fields, zeros without a checkpoint."""
    if not fs.exists(layout.checkpoint):
        return CheckpointPage()
    return decode_checkpoint(read_checkpoint_file(layout.checkpoint, fs)[:CHECKPOINT_SIZE])


def make_layout(root: Path, settings: Mapping[str, object], fs: Filesystem | None = None) -> StoreLayout:
    """Return the parts' paths: under the root, by storePathCommitLog, or in a group member's folder.

    All paths are absolute, so that the paths of a plan have one root.
    """
    fs, root = fs or Filesystem(), _absolute(root)
    told = tuple(check_settings({name: settings[name] for name in QUEUE_SETTINGS if name in settings}).items())
    member = find_member(root, settings, fs)
    elsewhere = str(settings.get(MEMBER_PATHS) or "").strip()
    commitlog = str(settings.get("storePathCommitLog") or "").strip()
    read_only = str(settings.get("readOnlyCommitLogStorePaths") or "").strip()
    if member is not None and elsewhere:
        plain = _absolute(Path(commitlog or root / "commitlog"))
        before = (plain,) if "," not in commitlog and fs.is_folder(plain) else ()
        return StoreLayout(root, _split_paths(elsewhere), (*_split_paths(read_only), *before), member, told)
    if member is not None:
        data, *of_before = member_log(member, fs)
        return StoreLayout(root, (data,), tuple(of_before), member, told)
    if "," not in commitlog:
        paths = (_absolute(Path(commitlog)),) if commitlog else ()
        return StoreLayout(root, paths, queue_settings=told)
    return StoreLayout(root, _split_paths(commitlog), _split_paths(read_only), queue_settings=told)


def _split_paths(text: str) -> tuple[Path, ...]:
    """Split paths as MultiPathMappedFileQueue does; raise BadRequest for an empty name between others.

    Blanks belong to a name, empty names at the end are dropped.
    """
    names = text.split(",")
    while names and not names[-1]:
        names.pop()
    if "" in names:
        raise BadRequest(f"an empty name among the folders of the commit log: {text}")
    return tuple(_absolute(Path(name)) for name in names)


def _absolute(path: Path) -> Path:
    """Return the absolute path, without `..`: with them a file elsewhere would look as if below it."""
    path = path.absolute()
    return path.resolve() if ".." in path.parts else path


def infer_config(layout: StoreLayout, settings: Mapping[str, object], fs: Filesystem) -> StoreConfig:
    """Return the given settings, completed from the store's files and the broker's defaults."""
    return StoreConfig().with_settings({**infer_settings(layout, settings, fs), **settings})


def has_database(layout: StoreLayout, fs: Filesystem) -> bool:
    """Return whether the store's consume queues are in a database alone."""
    return StoreConfig().with_settings(settings_told(layout, fs)).queues_in_database


def infer_settings(layout: StoreLayout, settings: Mapping[str, object], fs: Filesystem) -> dict[str, object]:
    """Infer the settings that are not given: sizes from the files, delays from delayed messages."""
    found = infer_sizes(layout, settings, fs) | settings_told(layout, fs, settings)
    if DELAY_LEVELS not in settings and (levels := infer_delay_levels(layout, fs)) is not None:
        found[DELAY_LEVELS] = levels
    return {name: value for name, value in found.items() if name not in settings}
