"""The journal of one change: its manifest, written before the first action, for undo.

    <quarantine>/<id>/manifest.json    the actions with names, sizes, mtimes, hashes, old bytes; the change's state
    <quarantine>/<id>/files/…          the removed files, under their old names
    <quarantine>/<id>/later/…          later files of other programs, which an undo moved out of the way
    ROOT/.rmqctl/change-elsewhere      during a change: the path of <quarantine>/<id>, if it is outside of the store

The states: applying -> applied -> undoing -> undone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from store.change.actions import LATER, Action, ManifestEntry, Workplace
from store.change.manifest import (
    MANIFEST_VERSION,
    decode_manifest,
    encode_manifest,
    require_sound_actions,
)
from store.change.workspace import is_below, quarantine_folder, relative_name, require_no_link
from store.errors import BadRequest, StoreError
from store.files.durable import sync_folders
from store.files.filesystem import Entry, Filesystem
from store.layout import OWN_FOLDER, STORE_NAMES

HALF_DONE = ("applying", "undoing")
# The file in rmqctl's own folder that holds the path of a change with its quarantine outside of the store.
ELSEWHERE = "change-elsewhere"


class Journal:
    """The manifest of one change, and the moves it describes."""

    def __init__(self, root: Path, folder: Path, document: dict[str, Any], fs: Filesystem) -> None:
        self.root, self.folder = root.absolute(), folder.absolute()
        self.fs = fs
        self._document = document
        self._workplace = Workplace(self.root, self.folder, fs)
        self._touched: set[Path] = set()
        """Folders in which names have changed since they were flushed."""

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def state(self) -> str:
        return str(self._document["state"])

    @property
    def command(self) -> str:
        return str(self._document["command"])

    @property
    def time_ms(self) -> int:
        return int(self._document["time_ms"])

    @property
    def entries(self) -> list[ManifestEntry]:
        return list(self._document["actions"])

    @classmethod
    def start(
        cls,
        root: Path,
        quarantine: Path,
        actions: Sequence[Action],
        fs: Filesystem,
        *,
        command: str,
        facts: dict[str, object],
    ) -> Journal:
        """Return a journal on disk for a change that has touched nothing yet."""
        _require_outside_of_data(root, quarantine)
        folder, now_ms = _fresh_folder(quarantine, command, fs)
        journal = cls(root, folder, {}, fs)
        journal._document = {
            "version": MANIFEST_VERSION,
            "command": command,
            "state": "applying",
            "time_ms": now_ms,
            "facts": facts,
            "actions": [journal._workplace.describe(number, action) for number, action in enumerate(actions)],
        }
        require_sound_actions(journal.entries, journal.folder / "manifest.json")
        try:
            fs.make_folder(folder / "files")
            journal._save()
            for parent in (quarantine, quarantine.parent, quarantine.parent.parent):
                fs.fsync_folder(parent)
            journal.announce()
        except BaseException:
            # Nothing was touched yet, so nothing must look half done.
            with contextlib.suppress(StoreError):
                fs.remove_tree(folder)
                journal.retract()
            raise
        return journal

    @classmethod
    def load(
        cls, root: Path, change_id: str, quarantine: Path, fs: Filesystem, elsewhere: Iterable[Path] | None = None
    ) -> Journal:
        """Read a change's journal from the quarantine.

        BadRequest for an unknown change, DamagedFile for a foreign one.

        elsewhere  see decode_manifest
        """
        quarantine = quarantine.absolute()
        folder = quarantine / change_id
        path = folder / "manifest.json"
        if "/" in change_id or change_id in (".", "..") or not fs.exists(path):
            raise BadRequest(f"no quarantined change {change_id}", code="unknown-change")
        require_no_link(fs, quarantine, path)
        return cls(root, folder, decode_manifest(fs.read_file(path), path, elsewhere), fs)

    def perform(self, action: Action, entry: ManifestEntry) -> None:
        """Do one action.

        Before the abort marker is removed, everything else is durable: a broker trusts its absence.
        """
        if action.path == self.root / "abort":
            self._flush_folders()
        self._touch(entry)
        self._workplace.perform(action, entry)

    def finish(self) -> None:
        self._flush_folders()
        self._document["after"] = store_look(self.root, self.fs, self.folder.parent)
        self.mark("applied")
        self.retract()

    def take_back(self) -> int:
        """Undo every action; return the number of restored files."""
        entries = self.entries
        for entry in entries:
            self._touch(entry)
        count = sum(self._workplace.take_back(entry) for entry in reversed(entries))
        self._flush_folders(takes_back=True)
        return count

    def require_unchanged(self) -> None:
        """Raise BadRequest if the store has changed since the change."""
        before, now = self._document.get("after"), store_look(self.root, self.fs, self.folder.parent)
        if before is not None and before != now:
            names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
            raise BadRequest(
                f"the store has changed since {self.id} ({names[0]}{' and more' if len(names) > 1 else ''})",
                code="changed-since",
            )

    def require_kept_sound(self) -> None:
        """Raise DamagedFile if a kept file differs from the file that the change removed."""
        for entry in self.entries:
            self._workplace.require_kept_sound(entry)

    def require_patches_untouched(self) -> None:
        """Raise BadRequest when records were written over a patch: its old bytes would tear them."""
        is_cut_short = self.state in HALF_DONE
        written = (one for one in self.entries if self._workplace.is_overwritten(one, is_cut_short=is_cut_short))
        entry = next(written, None)
        if entry is not None:
            raise BadRequest(
                f"the log was written on since {self.id}; undoing would destroy the record that is here now",
                file=self.root / entry["path"],
                offset=entry["position"],
                hint=f"what the change took away is in {self.folder / 'files'}",
            )

    def kept_files(self) -> list[Entry]:
        """Return the removed files."""
        return self.fs.list_folder(self.folder / "files")

    def later_files(self) -> list[Entry]:
        """Return later files of other programs that an undo moved into quarantine."""
        return self.fs.list_folder(self.folder / LATER)

    def announce(self) -> None:
        """Record the quarantine's place in the store, so that a change cut short is noticed there."""
        if self.folder.parent != quarantine_folder(self.root):
            note = self.root / OWN_FOLDER / ELSEWHERE
            self.fs.make_folder(note.parent)
            self.fs.unlink(note)
            descriptor = self.fs.open_new(note)
            self.fs.write(descriptor, 0, str(self.folder).encode(errors="surrogateescape"))
            self.fs.fsync(descriptor)
            for folder in (note.parent, self.root):
                self.fs.fsync_folder(folder)

    def retract(self) -> None:
        """Mark the change as whole: applied, or undone."""
        if self.folder.parent != quarantine_folder(self.root):
            note = self.root / OWN_FOLDER / ELSEWHERE
            if self.fs.exists(note):
                self.fs.unlink(note)
                self.fs.fsync_folder(note.parent)
                self.fs.remove_folder(note.parent)

    def mark(self, state: str) -> None:
        self._document["state"] = state
        self._save()

    def _touch(self, entry: ManifestEntry) -> None:
        """Note the folders whose names an action changes."""
        folder = (self.root / entry["path"]).parent
        # A new topic's folder is a name in its parent; a log elsewhere has its folder already.
        while folder not in self._touched:
            self._touched.add(folder)
            if not is_below(self.root, folder):
                return
            folder = folder.parent

    def _flush_folders(self, *, takes_back: bool = False) -> None:
        """Make the names durable that changed since the last time."""
        touched, kept, later = sorted(self._touched, reverse=True), self.folder / "files", self.folder / LATER
        # A moved file's new name is durable before its old name is removed: a power cut must not lose both.
        groups = ([self.folder, later], touched, [kept]) if takes_back else ([self.folder, kept], touched)
        for folders in groups:
            sync_folders([folder for folder in folders if self.fs.exists(folder)], self.fs)
        self._touched = set()

    def _save(self) -> None:
        data = encode_manifest(self._document)
        target, fresh = self.folder / "manifest.json", self.folder / "manifest.json.new"
        self.fs.unlink(fresh)
        descriptor = self.fs.open_new(fresh)
        self.fs.write(descriptor, 0, data)
        self.fs.fsync(descriptor)
        self.fs.rename(fresh, target)
        self.fs.fsync_folder(self.folder)


def _fresh_folder(quarantine: Path, command: str, fs: Filesystem) -> tuple[Path, int]:
    """Return a folder that no change has yet, and the time in its name."""
    now_ms = time.time_ns() // 1_000_000
    while fs.exists(quarantine / _change_id(command, now_ms)):
        now_ms += 1
    return quarantine / _change_id(command, now_ms), now_ms


def _change_id(command: str, now_ms: int) -> str:
    """Return an id, sortable by time and readable by people: 20261121T044200.123-recover."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.localtime(now_ms // 1000))
    return f"{stamp}.{now_ms % 1000:03d}-{command.replace(' ', '-')}"


def _require_outside_of_data(root: Path, quarantine: Path) -> None:
    """Raise BadRequest for a quarantine among the store's own files."""
    place = quarantine.resolve()
    for name in STORE_NAMES:
        if place.is_relative_to((root / name).resolve()):
            raise BadRequest(
                f"the quarantine would be among the store's own files, in {name}",
                file=quarantine,
                hint="name a folder outside of the store's data",
            )


def store_look(root: Path, fs: Filesystem, quarantine: Path) -> dict[str, list[int]]:
    """Return size and mtime of every file of the store.

    Left out: rmqctl's own files, those kept in `quarantine`, and the lock.
    """
    look: dict[str, list[int]] = {}
    folders = [root]
    left_out = ("lock", relative_name(root.resolve(), quarantine.resolve()))
    while folders:
        for entry in fs.list_folder(folders.pop()):
            name = relative_name(root, entry.path)
            if entry.path.name == OWN_FOLDER or name in left_out:
                continue
            if entry.is_folder:
                folders.append(entry.path)
            else:
                look[name] = [entry.size, entry.mtime_ns]
    return look
