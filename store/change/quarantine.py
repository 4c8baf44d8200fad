"""List, undo and purge applied changes; find a change that a crash left half done.

`undo` examines the file of each action, so it works at any point where a change was interrupted. It is refused if the
store has changed since (names, sizes or mtimes differ). With force it moves the files that it would replace into
quarantine. It is still refused where it would tear a later record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from store.change.journal import ELSEWHERE, HALF_DONE, Journal
from store.change.workspace import quarantine_folder
from store.errors import BadRequest, StoreIOError
from store.files.filesystem import Filesystem
from store.formats.given import check_flag, check_kind, check_names, check_path, check_sequence, check_text
from store.layout import OWN_FOLDER


class QuarantineEntry(NamedTuple):
    """One applied change, as `quarantine list` shows it. `state` is applying, applied, undoing or undone."""

    id: str
    command: str
    state: str
    time_ms: int
    file_count: int
    size: int


@dataclass(frozen=True, slots=True)
class UndoReport:
    """The result of an undo.

    `file_count` files were put back; `set_aside` lists those found in their places, kept in quarantine.
    """

    file_count: int
    set_aside: tuple[Path, ...]


def undo(
    root: str | Path,
    change_id: str,
    *,
    quarantine: str | Path | None = None,
    force: bool = False,
    fs: Filesystem | None = None,
    elsewhere: Sequence[str | Path] = (),
) -> UndoReport:
    """Restore the store to its state before the change.

    elsewhere  folders of the commit log outside of the store's

    BadRequest for an unknown or already undone id; when the store has changed since (unless `force`); and when records
    were written since over bytes that the change had patched.
    """
    fs = Filesystem() if fs is None else fs
    root, folder = _places(root, quarantine, fs)
    check_text("change_id", change_id)
    check_flag("force", force)
    check_sequence("elsewhere", elsewhere)
    for place in elsewhere:
        check_path("one of elsewhere", place)
    journal = Journal.load(root, change_id, folder, fs, [Path(place) for place in elsewhere])
    journal.require_kept_sound()
    if journal.state == "undone":
        raise BadRequest(f"{change_id} was undone already")
    if journal.state == "applied" and not force:
        journal.require_unchanged()
    journal.require_patches_untouched()
    # An interrupted undo can be continued, and no other command works on a half-undone store.
    journal.announce()
    journal.mark("undoing")
    count = journal.take_back()
    journal.mark("undone")
    journal.retract()
    return UndoReport(count, tuple(entry.path for entry in journal.later_files()))


def list_quarantine(root: str | Path, *, quarantine: str | Path | None = None, fs: Filesystem) -> list[QuarantineEntry]:
    """Return every change that can still be undone or purged, oldest first."""
    root, folder = _places(root, quarantine, fs)
    fs.require_folder(root / OWN_FOLDER)
    # A folder without a manifest is of a change that failed or was killed before it touched anything.
    ids = [e.path.name for e in fs.list_folder(folder) if not e.is_link and fs.exists(e.path / "manifest.json")]
    return [_entry_of(Journal.load(root, change_id, folder, fs)) for change_id in ids]


def _places(root: str | Path, quarantine: str | Path | None, fs: Filesystem) -> tuple[Path, Path]:
    """Return the store's root and the quarantine's folder; raise for a wrong kind of path or file system."""
    check_path("root", root)
    if quarantine is not None:
        check_path("quarantine", quarantine)
    check_kind("fs", fs, Filesystem)
    root = Path(root)
    return root, Path(quarantine) if quarantine is not None else quarantine_folder(root)


def _entry_of(journal: Journal) -> QuarantineEntry:
    kept = [*journal.kept_files(), *journal.later_files()]
    return QuarantineEntry(
        id=journal.id,
        command=journal.command,
        state=journal.state,
        time_ms=journal.time_ms,
        file_count=len(kept),
        size=sum(entry.size for entry in kept),
    )


class InterruptedChange(NamedTuple):
    """A change that a crash left half done, with its quarantine where that is outside of the store."""

    id: str
    elsewhere: Path | None = None

    @property
    def code(self) -> str:
        """The code of the advice on it."""
        return "interrupted-change" if self.elsewhere is None else "interrupted-change-elsewhere"


def interrupted_change(root: Path, fs: Filesystem) -> InterruptedChange | None:
    """Find the change that a crash left half done.

    StoreIOError when that quarantine is not there, perhaps because its disk is not mounted.
    """
    entries = list_quarantine(root, fs=fs)
    found = next((entry.id for entry in entries if entry.state in HALF_DONE), None)
    folder = _quarantined_elsewhere(root, fs)
    if found is not None:
        return InterruptedChange(found)
    if folder is None:
        return None
    if not fs.exists(folder / "manifest.json"):
        raise StoreIOError(
            f"the change {folder.name} was interrupted, and its quarantine is not there",
            file=folder,
            code="lost-quarantine",
            subject=(folder.name,),
        )
    if Journal.load(root, folder.name, folder.parent, fs).state not in HALF_DONE:
        return None
    return InterruptedChange(folder.name, folder.parent)


def _quarantined_elsewhere(root: Path, fs: Filesystem) -> Path | None:
    """Return the folder of a change under way whose quarantine is not in the store."""
    note = root / OWN_FOLDER / ELSEWHERE
    if not fs.exists(note):
        return None
    return Path(fs.read_file(note).decode(errors="surrogateescape"))


def purge(
    root: str | Path,
    change_ids: Sequence[str] | None = None,
    *,
    quarantine: str | Path | None = None,
    fs: Filesystem,
) -> int:
    """Delete quarantined changes for good (all of them without ids); give the bytes freed."""
    root, folder = _places(root, quarantine, fs)
    if change_ids is not None:
        check_names("change_ids", change_ids)
    lost = _quarantined_elsewhere(root, fs)
    if lost is not None and list(change_ids or ()) == [lost.name] and not fs.exists(lost / "manifest.json"):
        # Otherwise a lost disk with the quarantine would block the store for good.
        fs.unlink(root / OWN_FOLDER / ELSEWHERE)
        return 0
    entries = list_quarantine(root, quarantine=folder, fs=fs)
    unknown = set(change_ids or ()) - {entry.id for entry in entries}
    if unknown:
        raise BadRequest(f"no quarantined change {', '.join(sorted(unknown))}", code="unknown-change")
    chosen = [entry for entry in entries if change_ids is None or entry.id in change_ids]
    half_done = next((entry.id for entry in chosen if entry.state in HALF_DONE), None)
    if half_done is not None:
        raise BadRequest(
            f"the change {half_done} was interrupted; the files that it removed are still needed",
            code="interrupted-change",
            subject=(half_done,),
        )
    freed = 0
    for entry in chosen:
        freed += entry.size
        # A power cut must not leave a change that can be undone only in part.
        fs.unlink(folder / entry.id / "manifest.json")
        fs.fsync_folder(folder / entry.id)
        fs.remove_tree(folder / entry.id)
    return freed
