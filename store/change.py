"""A Change is a mutation that was planned, can be shown, applied in a crash-safe order, and undone.

    Remove   a file goes into quarantine
    Publish  a staged file takes a place; what stood there goes into quarantine
    Patch    a few bytes are overwritten in place; the old bytes go into the manifest

    ROOT/.rmqctl/quarantine/<id>/manifest.json    what was done: names, sizes, mtimes, hashes, old bytes
    ROOT/.rmqctl/quarantine/<id>/files/…          what was taken away, under its old name

Applying:
    1. the manifest is written and made durable with state "applying", before anything is touched
    2. the actions run in order; each is one rename or one small write
    3. folders are flushed, the manifest gets state "applied" and the look of the store afterwards

A step that fails is rolled back at once. After a crash in the middle the manifest still says "applying", and `undo`
puts everything back: it looks at each action's place, so it does not matter how far the change had come. Undoing is
refused when the store has moved on since (names, sizes or mtimes differ), because newer work would be lost.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from store.disk.filesystem import Filesystem
from store.errors import BadRequest, StoreError, StoreIOError

MANIFEST_VERSION = 1
# Hashing bigger files would take longer than the change itself; a rename can't alter them.
HASH_SIZE_LIMIT = 32 * 1024 * 1024
OWN_FOLDER = ".rmqctl"
PART_SUFFIX = ".part"
HALF_DONE = ("applying", "undoing")
# In rmqctl's own folder, names the change under way while its quarantine is not in the store.
ELSEWHERE = "change-elsewhere"


@dataclass(frozen=True, slots=True)
class Remove:
    """`path` goes into quarantine because of `reason`."""

    path: Path
    reason: str

    verb = "remove"


@dataclass(frozen=True, slots=True)
class Publish:
    """`staged`, a finished file on the same file system, becomes `path`."""

    path: Path
    staged: Path
    reason: str

    verb = "write"


@dataclass(frozen=True, slots=True)
class Patch:
    """The bytes at `position` of `path` become `after`."""

    path: Path
    position: int
    after: bytes
    reason: str

    verb = "patch"


Action = Remove | Publish | Patch


@dataclass(slots=True)
class Change:
    """A plan for one store.

    facts         what the plan found out, for people and JSON (offsets, modes, counts)
    lost          messages per topic that the store would no longer show
    log_end       where the commit log ends after the change, None when that does not change
    staging       folder of staged files, removed when the change is applied or dropped
    """

    command: str
    root: Path
    fs: Filesystem
    actions: list[Action] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    staging: Path | None = None
    sync_paths: list[Path] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self.actions

    def bytes_affected(self, action: Action) -> int:
        """Size of what the action takes away or writes."""
        if isinstance(action, Patch):
            return len(action.after)
        path = action.staged if isinstance(action, Publish) else action.path
        return self.fs.stat(path).st_size if self.fs.exists(path) else 0

    def rows(self) -> list[dict[str, Any]]:
        """One row per action: action, file (relative to the root where it lies in it), bytes, reason."""
        return [
            {
                "action": action.verb,
                "file": relative_name(self.root, action.path),
                "bytes": self.bytes_affected(action),
                "reason": action.reason,
            }
            for action in self.actions
        ]

    def apply(
        self,
        *,
        quarantine: Path | None = None,
        keep: bool = True,
        on_action: Callable[[Action], None] | None = None,
    ) -> str | None:
        """Carries the plan out and gives the id to undo it by; None when there was nothing to do.

        quarantine  the folder that takes what is removed (default ROOT/.rmqctl/quarantine)
        keep        False deletes what was taken away once the change is complete
        Raises StoreIOError; everything done so far has then been put back, as after an interrupt.
        """
        for path in self.sync_paths:
            if self.fs.exists(path):
                self.fs.fdatasync(self.fs.open_read(path))
        if self.is_empty:
            self.drop()
            return None
        journal = _Journal.start(self, quarantine or quarantine_folder(self.root))
        try:
            for action, entry in zip(self.actions, journal.entries, strict=True):
                journal.perform(action, entry)
                if on_action is not None:
                    on_action(action)
            journal.finish()
        except BaseException as error:
            self._roll_back(journal, error)
            raise
        self.drop()
        if not keep:
            purge(self.root, [journal.id], quarantine=journal.folder.parent, fs=self.fs)
            return None
        return journal.id

    def drop(self) -> None:
        """Removes what was staged and not published."""
        if self.staging is not None:
            remove_tree(self.fs, self.staging)
            self.staging = None

    def _roll_back(self, journal: _Journal, error: BaseException) -> None:
        """Puts back what was done, also after an interrupt; tells in the error's hint how that went."""
        try:
            journal.undo()
        except StoreError:
            if isinstance(error, StoreError):
                error.hint = f"the change is half done; run `rmqctl undo {journal.id}` when the cause is mended"
            return
        remove_tree(self.fs, journal.folder)
        journal.retract()
        if isinstance(error, StoreError):
            error.hint = f"{error.hint}; nothing was changed" if error.hint else "nothing was changed"


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """One applied change, as `quarantine list` shows it. `state` is applying, applied, undoing or undone."""

    id: str
    command: str
    state: str
    time_ms: int
    file_count: int
    size: int


def quarantine_folder(root: Path) -> Path:
    return root / OWN_FOLDER / "quarantine"


def staging_folder(root: Path, name: str) -> Path:
    """A folder on the store's own file system, so that publishing is a rename."""
    return root / OWN_FOLDER / "staging" / name


def new_change_id(command: str, now_ms: int) -> str:
    """Sortable by time, readable by people: 20261121T044200.123-recover."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.localtime(now_ms // 1000))
    return f"{stamp}.{now_ms % 1000:03d}-{command.replace(' ', '-')}"


def undo(root: Path, change_id: str, *, quarantine: Path | None = None, force: bool = False, fs: Filesystem) -> int:
    """Puts the store back to what it was before the change; gives the number of files restored.

    BadRequest for an unknown or already undone id, and when the store has changed since (unless `force`).
    """
    journal = _Journal.load(root, change_id, quarantine or quarantine_folder(root), fs)
    if journal.state == "undone":
        raise BadRequest(f"{change_id} was undone already")
    if journal.state == "applied" and not force:
        journal.require_unchanged()
    # So that an undoing that is cut short can be taken up again, and nobody works on the half of it.
    journal.announce()
    journal.mark("undoing")
    count = journal.undo()
    journal.mark("undone")
    journal.retract()
    return count


def list_quarantine(root: Path, *, quarantine: Path | None = None, fs: Filesystem) -> list[QuarantineEntry]:
    """Every change that can still be undone or purged, oldest first."""
    folder = quarantine or quarantine_folder(root)
    # A folder without a manifest is of a change that failed or was killed before it touched anything.
    ids = [entry.path.name for entry in fs.list_folder(folder) if fs.exists(entry.path / "manifest.json")]
    return [_Journal.load(root, change_id, folder, fs).summary() for change_id in ids]


def interrupted_change(root: Path, fs: Filesystem) -> str | None:
    """Id of a change that a crash left half done, with the option that undo needs if its quarantine is elsewhere."""
    entries = list_quarantine(root, fs=fs)
    found = next((entry.id for entry in entries if entry.state in HALF_DONE), None)
    if found is not None or not fs.exists(root / OWN_FOLDER / ELSEWHERE):
        return found
    folder = Path(fs.read_file(root / OWN_FOLDER / ELSEWHERE).decode(errors="surrogateescape"))
    # Without its manifest, perhaps because the disk is not mounted, the change counts as half done.
    is_there = fs.exists(folder / "manifest.json")
    if is_there and _Journal.load(root, folder.name, folder.parent, fs).state not in HALF_DONE:
        return None
    return f"{folder.name} --quarantine {folder.parent}"


def purge(
    root: Path, change_ids: Sequence[str] | None = None, *, quarantine: Path | None = None, fs: Filesystem
) -> int:
    """Deletes quarantined changes for good (all of them without ids); gives the bytes freed."""
    folder = quarantine or quarantine_folder(root)
    entries = list_quarantine(root, quarantine=folder, fs=fs)
    unknown = set(change_ids or ()) - {entry.id for entry in entries}
    if unknown:
        raise BadRequest(f"no quarantined change {', '.join(sorted(unknown))}", hint="see `rmqctl quarantine list`")
    chosen = [entry for entry in entries if change_ids is None or entry.id in change_ids]
    half_done = next((entry.id for entry in chosen if entry.state in HALF_DONE), None)
    if half_done is not None:
        raise BadRequest(
            f"the change {half_done} was interrupted; what it took away is still needed",
            hint=f"run `rmqctl undo {half_done}` first",
        )
    freed = 0
    for entry in chosen:
        freed += entry.size
        remove_tree(fs, folder / entry.id)
    return freed


def relative_name(root: Path, path: Path) -> str:
    """The path as people read it: relative to the store where it lies in the store."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def remove_tree(fs: Filesystem, folder: Path) -> None:
    """Deletes a folder of rmqctl's own with all that is in it."""
    for entry in fs.list_folder(folder):
        if entry.is_folder:
            remove_tree(fs, entry.path)
        else:
            fs.unlink(entry.path)
    fs.remove_folder(folder)


class _Journal:
    """The manifest of one change, and the moves it describes."""

    def __init__(self, root: Path, folder: Path, document: dict[str, Any], fs: Filesystem) -> None:
        self.root = root
        self.folder = folder
        self.fs = fs
        self._document = document

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def state(self) -> str:
        return str(self._document["state"])

    @property
    def entries(self) -> list[dict[str, Any]]:
        return list(self._document["actions"])

    @classmethod
    def start(cls, change: Change, quarantine: Path) -> _Journal:
        now_ms = time.time_ns() // 1_000_000
        change_id = new_change_id(change.command, now_ms)
        while change.fs.exists(quarantine / change_id):
            now_ms += 1
            change_id = new_change_id(change.command, now_ms)
        folder = quarantine / change_id
        document: dict[str, Any] = {
            "version": MANIFEST_VERSION,
            "command": change.command,
            "state": "applying",
            "time_ms": now_ms,
            "facts": change.facts,
            "actions": [],
        }
        journal = cls(change.root, folder, document, change.fs)
        document["actions"] = [journal._describe(number, action) for number, action in enumerate(change.actions)]
        try:
            change.fs.make_folder(folder / "files")
            journal._save()
            for parent in (quarantine, quarantine.parent, quarantine.parent.parent):
                change.fs.fsync_folder(parent)
            journal.announce()
        except BaseException:
            # Nothing was touched yet, so nothing must look half done.
            with contextlib.suppress(StoreError):
                remove_tree(change.fs, folder)
                journal.retract()
            raise
        return journal

    @classmethod
    def load(cls, root: Path, change_id: str, quarantine: Path, fs: Filesystem) -> _Journal:
        folder = quarantine / change_id
        if "/" in change_id or not fs.exists(folder / "manifest.json"):
            raise BadRequest(f"no quarantined change {change_id}", hint="see `rmqctl quarantine list`")
        try:
            document = json.loads(fs.read_file(folder / "manifest.json"))
        except ValueError:
            raise StoreIOError("the manifest is not readable JSON", file=folder / "manifest.json") from None
        return cls(root, folder, document, fs)

    def _describe(self, number: int, action: Action) -> dict[str, Any]:
        """Everything that is needed to take the action back."""
        entry: dict[str, Any] = {
            "kind": action.verb,
            "path": relative_name(self.root, action.path),
            "reason": action.reason,
            "original": None,
        }
        if self.fs.exists(action.path):
            status = self.fs.stat(action.path)
            entry["original"] = {"size": status.st_size, "mtime_ns": status.st_mtime_ns}
            if status.st_size <= HASH_SIZE_LIMIT:
                entry["original"]["sha256"] = hashlib.sha256(self.fs.read_file(action.path)).hexdigest()
        if isinstance(action, Patch):
            descriptor = self.fs.open_read(action.path)
            entry["position"] = action.position
            entry["before"] = self.fs.read(descriptor, action.position, len(action.after)).hex()
        else:
            entry["kept_as"] = f"files/{number:06d}-{action.path.name}"
        return entry

    def perform(self, action: Action, entry: dict[str, Any]) -> None:
        if isinstance(action, Patch):
            descriptor = self.fs.open_write(action.path)
            self.fs.write(descriptor, action.position, action.after)
            self.fs.fdatasync(descriptor)
            return
        if entry["original"] is not None:
            self._move(action.path, self.folder / entry["kept_as"], entry["original"]["mtime_ns"])
        if isinstance(action, Publish):
            self.fs.make_folder(action.path.parent)
            self.fs.fdatasync(self.fs.open_read(action.staged))
            # consumequeue/ or index/ may be a link to another disk.
            self._move(action.staged, action.path, self.fs.stat(action.staged).st_mtime_ns)

    def finish(self) -> None:
        for folder in self._folders():
            if self.fs.exists(folder):
                self.fs.fsync_folder(folder)
        self._document["after"] = store_look(self.root, self.fs)
        self.mark("applied")
        self.retract()

    def announce(self) -> None:
        """Leaves in the store where the quarantine is, so that a change cut short by a crash is noticed there."""
        if self.folder.parent != quarantine_folder(self.root):
            note = self.root / OWN_FOLDER / ELSEWHERE
            self.fs.make_folder(note.parent)
            self.fs.unlink(note)
            descriptor = self.fs.open_new(note)
            self.fs.write(descriptor, 0, str(self.folder.absolute()).encode(errors="surrogateescape"))
            self.fs.fsync(descriptor)
            self.fs.fsync_folder(note.parent)

    def retract(self) -> None:
        """The change is whole: applied, or undone."""
        if self.folder.parent != quarantine_folder(self.root):
            self.fs.unlink(self.root / OWN_FOLDER / ELSEWHERE)
            self.fs.remove_folder(self.root / OWN_FOLDER)

    def mark(self, state: str) -> None:
        self._document["state"] = state
        self._save()

    def undo(self) -> int:
        count = 0
        for entry in reversed(self.entries):
            count += self._undo_patch(entry) if entry["kind"] == "patch" else self._undo_move(entry)
        for folder in self._folders():
            if self.fs.exists(folder):
                self.fs.fsync_folder(folder)
        return count

    def require_unchanged(self) -> None:
        before, now = self._document.get("after"), store_look(self.root, self.fs)
        if before is not None and before != now:
            names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
            raise BadRequest(
                f"the store has changed since {self.id} ({names[0]}{' and more' if len(names) > 1 else ''})",
                hint="undoing would lose what came later; use --force if that is what you want",
            )

    def summary(self) -> QuarantineEntry:
        kept = self.fs.list_folder(self.folder / "files")
        return QuarantineEntry(
            id=self.id,
            command=str(self._document["command"]),
            state=self.state,
            time_ms=int(self._document["time_ms"]),
            file_count=len(kept),
            size=sum(entry.size for entry in kept),
        )

    def _undo_patch(self, entry: dict[str, Any]) -> int:
        path = self.root / entry["path"]
        descriptor = self.fs.open_write(path)
        self.fs.write(descriptor, entry["position"], bytes.fromhex(entry["before"]))
        self.fs.fdatasync(descriptor)
        self.fs.utime(path, entry["original"]["mtime_ns"])
        return 1

    def _undo_move(self, entry: dict[str, Any]) -> int:
        path, kept = self.root / entry["path"], self.folder / entry["kept_as"]
        if entry["original"] is None:
            self.fs.unlink(path)
            self._remove_empty_parents(path.parent)
            return 1
        if not self.fs.exists(kept):
            return 0
        self.fs.make_folder(path.parent)
        self._move(kept, path, entry["original"]["mtime_ns"])
        return 1

    def _remove_empty_parents(self, folder: Path) -> None:
        while folder != self.root and folder.is_relative_to(self.root) and self.fs.remove_folder(folder):
            folder = folder.parent

    def _move(self, source: Path, target: Path, mtime_ns: int) -> None:
        try:
            self.fs.rename(source, target)
        except StoreIOError as error:
            if error.errno != errno.EXDEV:
                raise
            self._copy(source, target, mtime_ns)
            self.fs.unlink(source)

    def _copy(self, source: Path, target: Path, mtime_ns: int) -> None:
        """A quarantine on another file system: the copy is whole and durable before it gets its name, and that before
        the original goes. So a name in the quarantine always stands for all of a file."""
        size = self.fs.stat(source).st_size
        part = target.with_name(target.name + PART_SUFFIX)
        self.fs.unlink(part)
        descriptor = self.fs.create_file(part, size)
        self.fs.copy_range(self.fs.open_read(source), descriptor, 0, size)
        self.fs.utime(part, mtime_ns)
        self.fs.fsync(descriptor)
        self.fs.rename(part, target)
        self.fs.fsync_folder(target.parent)

    def _folders(self) -> Iterable[Path]:
        touched = {(self.root / entry["path"]).parent for entry in self.entries}
        return [*sorted(touched), self.folder / "files", self.folder]

    def _save(self) -> None:
        data = json.dumps(self._document, indent=1).encode()
        target, fresh = self.folder / "manifest.json", self.folder / "manifest.json.new"
        self.fs.unlink(fresh)
        descriptor = self.fs.open_new(fresh)
        self.fs.write(descriptor, 0, data)
        self.fs.fsync(descriptor)
        self.fs.rename(fresh, target)
        self.fs.fsync_folder(self.folder)


def store_look(root: Path, fs: Filesystem) -> dict[str, list[int]]:
    """Size and mtime of every file of the store, except rmqctl's own and the lock."""
    look: dict[str, list[int]] = {}
    folders = [root]
    while folders:
        for entry in fs.list_folder(folders.pop()):
            if entry.path.name == OWN_FOLDER or entry.path == root / "lock":
                continue
            if entry.is_folder:
                folders.append(entry.path)
            else:
                look[relative_name(root, entry.path)] = [entry.size, entry.mtime_ns]
    return look
