"""The files of a store, each folder listed once, and foreign files among them.

A store may have a hundred thousand queue folders, so one call lists all of consumequeue/.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from store.files.numbered import usual_size
from store.files.store_reader import StoredFile, StoreReader
from store.layout import parse_index_file_name, parse_queue_id, parse_segment_name
from store.structures.consumequeue.survey import QueueListing
from store.structures.findings import FOREIGN_FILE, LINK, Finding
from store.structures.index.geometry import Geometry, geometry_of, given_geometry

QUEUES_PER_SHARE = 500
NO_BROKER = "no broker starts with it"
NOT_4_9 = "a 4.9 broker does not start with it, a 5.3 one passes over it"
NOT_5_3 = "a 5.3 broker does not start with it, a 4.9 one loads no later index file"
LINKED = "a link: brokers and reading commands follow it, commands that change the store refuse it"
NO_BROKERS = "no broker made it"
HARMLESS = "brokers pass over it"

Queue = tuple[str, int]
Share = tuple[QueueListing, ...] | StoredFile
"""Some queues, or one index file."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a store, and findings about anything else in its folders.

    log               the segments, and those of 0 bytes
    segment_size      the expected length of a segment: from the settings, else the usual one
    queue_file_size   the expected length of a queue file: from the settings, else the most common one
    index_geometries  by file size: from the settings, else from the first file that has one
    """

    log: tuple[StoredFile, ...]
    segment_size: int
    queues: tuple[QueueListing, ...]
    indexes: tuple[StoredFile, ...]
    queue_file_size: int
    index_geometries: Mapping[int, Geometry]
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, files: StoreReader, settings: Mapping[str, object]) -> Listing:
        """List commitlog/, consumequeue/, consumequeue_ext/ and index/."""
        links = files.links()
        found, foreign = _queue_files(files, "consumequeue", links)
        extensions, foreign_extensions = _queue_files(files, "consumequeue_ext", links)
        indexes = tuple(files.index_files())
        sizes = Counter(file.size for of_queue in found.values() for file in of_queue)
        usual = int(str(settings.get("mappedFileSizeConsumeQueue", 0))) or max(sizes, key=sizes.__getitem__, default=0)
        strangers = [*_foreign_in_commitlog(files), *foreign, *foreign_extensions, *_foreign_in_index(files, links)]
        log = tuple(files.segments(with_empty=True))
        return cls(
            log=log,
            segment_size=int(str(settings.get("mappedFileSizeCommitLog", 0))) or usual_size(log),
            queues=tuple(_with_extension(q, found[q], extensions.get(q, ())) for q in sorted(found)),
            indexes=indexes,
            queue_file_size=usual,
            index_geometries=_geometries(files, indexes, settings),
            findings=(
                *(
                    Finding(FOREIGN_FILE, files.name_of(path), 0, detail=f"{fault}; {effect}")
                    for path, fault, effect in strangers
                ),
                *(Finding(LINK, files.name_of(path), 0, detail=LINKED) for path in links),
            ),
        )

    @property
    def segments(self) -> tuple[StoredFile, ...]:
        """The segments with bytes; one that is too long ends where the next one begins in its place."""
        starts, size = {file.number for file in self.log}, self.segment_size
        return tuple(
            file._replace(size=size) if 0 < size < file.size and file.number + size in starts else file
            for file in self.log
            if file.size
        )

    def shares(self) -> list[Share]:
        """Split the derived files into shares, one for each task: some queues, or one index file."""
        step = max(1, min(QUEUES_PER_SHARE, len(self.queues) // 16))
        return [*(self.queues[at : at + step] for at in range(0, len(self.queues), step)), *self.indexes]


Stranger = tuple[str, str, str]
"""Path, fault, and the effect on brokers."""


def _queue_files(
    files: StoreReader, folder: str, links: list[str]
) -> tuple[dict[Queue, list[StoredFile]], list[Stranger]]:
    """List the files of every queue, including queues without files, and the foreign files there.

    links  is extended by the paths of links
    """
    found: dict[Queue, list[StoredFile]] = defaultdict(list)
    foreign: list[Stranger] = []
    for entry in files.below(folder):
        links += [entry.path] if entry.is_link and not entry.kind else []
        names = entry.path.split("/")[1:]
        queue_id = parse_queue_id(names[1]) if len(names) > 1 else None
        if len(names) == 1 and not entry.is_folder:
            foreign.append((entry.path, "a file where topics' folders are", HARMLESS))
        elif len(names) == 2 and (queue_id is None or not entry.is_folder):
            foreign.append((entry.path, "not the folder of a queue", HARMLESS))
        elif len(names) == 2 and queue_id is not None:
            _ = found[names[0], queue_id]
        elif len(names) == 3 and queue_id is not None:
            number = parse_segment_name(names[2])
            if entry.is_folder:
                foreign.append((entry.path, "a folder among a queue's files", NOT_4_9))
            elif entry.kind:
                foreign.append((entry.path, f"{entry.kind} among a queue's files", NO_BROKERS))
            elif number is None:
                foreign.append((entry.path, "not the name of a queue file", NO_BROKER))
            else:
                found[names[0], queue_id].append(StoredFile(entry.path, number, entry.size, entry.mtime_ms))
    return {queue: sorted(of_queue, key=lambda file: file.number) for queue, of_queue in found.items()}, foreign


def _with_extension(queue: Queue, of_queue: list[StoredFile], extension: Any) -> QueueListing:
    start = extension[0].number if extension else 0
    end = extension[-1].number + extension[-1].size if extension else 0
    return QueueListing(*queue, tuple(of_queue), start, end)


def _foreign_in_commitlog(files: StoreReader) -> Iterator[Stranger]:
    for entry, fault in files.foreign_in_commitlog():
        if not (entry.is_file or entry.is_folder):
            effect = NO_BROKERS
        else:
            effect = NOT_4_9 if entry.is_folder else NO_BROKER
        yield f"commitlog/{entry.path.name}", fault, effect


def _foreign_in_index(files: StoreReader, links: list[str]) -> Iterator[Stranger]:
    for entry in files.below("index"):
        links += [entry.path] if entry.is_link and not entry.kind else []
        names = entry.path.split("/")[1:]
        is_number = parse_index_file_name(names[0]) is not None
        if len(names) > 1:
            continue
        if entry.is_folder:
            yield entry.path, "a folder among the index files", NOT_5_3 if is_number else HARMLESS
        elif entry.kind:
            yield entry.path, f"{entry.kind} among the index files", NO_BROKERS
        elif not is_number:
            yield entry.path, "not the name of an index file", HARMLESS


def _geometries(
    files: StoreReader, indexes: tuple[StoredFile, ...], settings: Mapping[str, Any]
) -> dict[int, Geometry]:
    """Return the geometry of each file size: from the settings, else from the first file with one."""
    found: dict[int, Geometry] = {}
    for file in indexes:
        if file.size not in found:
            geometry = given_geometry(settings, file.size) or geometry_of(files.salvage(file.path).buffer)
            if geometry is not None:
                found[file.size] = geometry
    return found
