"""Plan a bundle: the files of a store, and the form of each.

whole            files derived from the log, and the tables
bodies replaced  files of records: the log, a group's entries, compacted messages
names replaced   tables and other texts, if names are hidden
left out         old segments of the log, on request; databases with names or keys to be hidden
zeros            unknown files, and files that changes removed: names and lengths alone
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.files.store_reader import StoredFile, StoreReader
from store.formats.bundle import ABSENT, BODILESS, EMPTIED, RENAMED, WHOLE, BundledFile
from store.layout import OWN_FOLDER, StoreLayout, parse_segment_name
from store.structures.registry import STRUCTURES, is_of_a_database, names_of, present, structure_of
from store.verbs.bundle.names import names_in

_BEGINNING = 4096
_JOURNAL = (".json", ".jsonl", "elsewhere")
_WITH_KEYS = tuple(f"{trace.path}/" for one in STRUCTURES if one.holds_keys for trace in one.traces)
_RECORDS = tuple(pattern for one in STRUCTURES for pattern in one.records)


@dataclass(slots=True)
class BundlePlan:
    """The folders and files of a bundle, in the order of writing."""

    folders: list[str] = field(default_factory=list)
    files: list[BundledFile] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Entries that are neither file nor folder, with their kind, and databases."""

    @property
    def size(self) -> int:
        """Bytes of the files in the archive, uncompressed."""
        return sum(one.size for one in self.files if one.content != ABSENT)

    def leave_out_before(self, log_offset: int) -> None:
        """Leave out the log's segments, as if they had expired, up to the second one before `log_offset`."""
        segments = [one for one in self.files if one.content == BODILESS and one.path.startswith("commitlog/")]
        starts = sorted(file_start(one.path) or 0 for one in segments)
        first = starts[max(0, bisect_right(starts, log_offset) - 2)] if starts else 0
        old = {one.path for one in segments if (file_start(one.path) or 0) < first}
        self.files = [replace(one, content=ABSENT) if one.path in old else one for one in self.files]


def plan_bundle(
    layout: StoreLayout,
    reader: StoreReader,
    fs: Filesystem,
    *,
    hides_properties: bool = False,
    hides_names: bool = False,
) -> BundlePlan:
    """List the content of a bundle of the store.

    BadRequest if names cannot be hidden, or if a member's entries are outside of the store.
    """
    for one in present(names_of(layout, fs)) if hides_names else ():
        if one.holds_names:
            raise BadRequest(f"names cannot be hidden: the {one.name} has them too", file=layout.root)
    plan, databases, log = BundlePlan(), set[str](), layout.commitlogs_elsewhere if layout.has_plain_log else ()
    if not layout.has_plain_log and not any(one.is_relative_to(layout.root) for one in layout.commitlogs_elsewhere):
        raise BadRequest("the member's entries are in a folder outside of the store", file=layout.root)
    for entry in fs.list_below(str(layout.root), ""):
        path = entry.path.lstrip("/")
        if entry.is_folder:
            plan.folders.append(path)
        elif entry.kind:
            plan.left_out.append(f"{path}: {entry.kind}")
        elif not (log and path.startswith("commitlog/")):
            content = content_of(path)
            is_hidden = hides_names or (hides_properties and path.startswith(_WITH_KEYS))
            if is_hidden and content == WHOLE and is_of_a_database(path):
                databases.add(path.rpartition("/")[0])
                content = ABSENT
            elif hides_names and content == WHOLE and _is_text(path, reader):
                content = RENAMED
            plan.files.append(BundledFile(path, entry.size, entry.mtime_ms, content))
    plan.folders = [one for one in plan.folders if one not in databases]
    plan.left_out += [
        f"{one}: left out, because names and keys in a database cannot be hidden" for one in sorted(databases)
    ]
    if log:
        plan.folders += [] if "commitlog" in plan.folders else ["commitlog"]
        plan.files += [BundledFile(one.path, one.size, one.mtime_ms, BODILESS) for one in reader.segments()]
    return plan


def content_of(path: str) -> str:
    """Return the form in a bundle of the file at this path of a store."""
    top, _, rest = path.partition("/")
    if any(fnmatchcase(path, pattern) for pattern in _RECORDS):
        return EMPTIED if file_start(path) is None else BODILESS
    if top == OWN_FOLDER:
        return WHOLE if rest.endswith(_JOURNAL) else EMPTIED
    return WHOLE if structure_of(top) is not None else EMPTIED


def _is_text(path: str, reader: StoreReader) -> bool:
    """Return whether a file is a text: no number is its name, and no byte of 0 is at its beginning."""
    is_numbered = path.rpartition("/")[2].isdigit()
    return not is_numbered and b"\0" not in bytes(reader.salvage(path, _BEGINNING).buffer)


def names_of_bundle(plan: BundlePlan, reader: StoreReader) -> set[str]:
    """Return the names in the folders and texts of a plan: of topics, groups, cluster and broker."""
    paths = [PurePosixPath(folder) for folder in plan.folders]
    holders = {path.parent.parent for path in paths if path.name.isdigit()}
    names = {path.name for path in paths if path.parent in holders}
    for file in plan.files:
        if file.content == RENAMED:
            names.update(names_in(bytes(reader.salvage(file.path).buffer)))
    return {name for name in names if not name.isdigit()}


def file_start(path: str) -> int | None:
    """Return the log offset in the name of a file of records, with or without an ending."""
    return parse_segment_name(path.rpartition("/")[2].partition(".")[0])


def stored_file(file: BundledFile) -> StoredFile:
    """Return the file in the form that a reader of records needs."""
    return StoredFile(file.path, file_start(file.path) or 0, file.size, file.mtime_ms)
