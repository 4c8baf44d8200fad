"""Change: a planned mutation that can be shown, applied in a crash-safe order, and undone.

    1. the manifest is written and made durable with state "applying", before anything is touched   (journal.py)
    2. the actions run in order; each is one rename or one small write                              (actions.py)
    3. folders are flushed, the manifest gets state "applied" and the look of the store afterwards

A step that fails is rolled back at once. After a crash in the middle the manifest still says "applying", and `undo`
puts everything back (quarantine.py).

A change that was planned by a store's path holds the store's lock until it is applied or closed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, Self, TypedDict, TypeVar, cast

from store.change.actions import Action, Patch, Publish
from store.change.journal import Journal
from store.change.plan_report import PlanReport as PlanReport
from store.change.quarantine import purge
from store.change.workspace import quarantine_folder, relative_name
from store.errors import DamagedFile, StoreError
from store.files import lost_pages
from store.files.durable import sync_files
from store.files.filesystem import Filesystem
from store.files.scratch import is_in_scratch
from store.formats.given import check_call, check_flag, check_path

R = TypeVar("R", bound=PlanReport)
R_co = TypeVar("R_co", bound=PlanReport, covariant=True)


class PlannedAction(TypedDict):
    """One step of a plan; `file` is relative to the root if it is inside of it."""

    action: str
    file: str
    size_bytes: int
    reason: str


@dataclass(slots=True)
class Change(Generic[R_co]):
    """A plan for one store.

    report        the plan's results (offsets, modes, counts); each verb has its own type
    lost          messages per topic that the store would no longer show
    notes         damage and disorder met while planning, as sentences for people
    damaged       damage that this plan leaves for another plan to repair
    foreign       names that keep a broker from starting, as sentences for people
    remarks       further sentences for people
    staging       folder of staged files, removed when the change is applied or closed
    sync_paths    files that must be durable before the first action, because the plan depends on their content
    until_closed  closes the store that was opened for the plan, if the plan was made from a path
    """

    command: str
    root: Path
    fs: Filesystem
    actions: list[Action] = field(default_factory=list)
    report: R_co = field(default_factory=cast(Any, PlanReport))
    lost: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    damaged: list[DamagedFile] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    staging: Path | None = None
    sync_paths: list[Path] = field(default_factory=list)
    until_closed: ExitStack = field(default_factory=ExitStack, repr=False, compare=False)

    @property
    def is_empty(self) -> bool:
        return not self.actions

    def publishes_below(self, folder: Path) -> bool:
        """Return whether the plan puts a file into the folder."""
        return any(str(path).startswith(f"{folder}/") for path in self.published)

    @property
    def published(self) -> dict[Path, Path]:
        """The target paths of the plan's files, each with its staged file."""
        return {action.path: action.staged for action in self.actions if isinstance(action, Publish)}

    def publish_bytes(self, path: Path, data: bytes, reason: str) -> None:
        """Stage a small file and plan to publish it at `path`."""
        assert self.staging is not None, "a plan that writes files has a folder to stage them in"
        self.fs.make_folder(self.staging)
        staged = self.staging / path.name
        self.fs.write(self.fs.open_new(staged), 0, data)
        self.actions.append(Publish(path, staged, reason))

    def bytes_affected(self, action: Action) -> int:
        """Return the number of bytes that the action removes or writes."""
        if isinstance(action, Patch):
            return len(action.after)
        path = action.staged if isinstance(action, Publish) else action.path
        return self.fs.bytes_at(path) or 0

    def rows(self) -> list[PlannedAction]:
        """Return a row for each action."""
        return [
            {
                "action": action.verb,
                "file": relative_name(self.root, action.path),
                "size_bytes": self.bytes_affected(action),
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
        """Carry out the plan and return the id for its undo; None if there was nothing to do.

        quarantine  the folder for removed files (default ROOT/.rmqctl/quarantine)
        keep        False deletes the removed files after the change is complete
        Raises StoreIOError after all finished actions have been rolled back, as after an interrupt.
        """
        if quarantine is not None:
            check_path("quarantine", quarantine)
        check_flag("keep", keep)
        if on_action is not None:
            check_call("on_action", on_action)
        folder = Path(quarantine or quarantine_folder(self.root))
        with self.until_closed:
            change_id = self._carry_out(folder, on_action)
            if keep or change_id is None:
                return change_id
            purge(self.root, [change_id], quarantine=folder, fs=self.fs)
            return None

    def close(self) -> None:
        """Remove files that were staged and not published; close the store that was opened by its path."""
        with self.until_closed:
            self._remove_staged()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _carry_out(self, folder: Path, on_action: Callable[[Action], None] | None) -> str | None:
        """Do the module's steps and give the id of the change, or None when there was nothing to do."""
        # The plan may depend on zeros in place of a lost page.
        lost_pages.require_none()
        sync_files([path for path in self.sync_paths if self.fs.exists(path)], self.fs)
        if self.is_empty:
            self._remove_staged()
            return None
        facts = asdict(self.report)
        journal = Journal.start(self.root, folder, self.actions, self.fs, command=self.command, facts=facts)
        try:
            sync_files([action.staged for action in self.actions if isinstance(action, Publish)], self.fs)
            for action, entry in zip(self.actions, journal.entries, strict=True):
                journal.perform(action, entry)
                if on_action is not None:
                    on_action(action)
            journal.finish()
        except BaseException as error:
            self._roll_back(journal, error)
            raise
        self._remove_staged()
        return journal.id

    def _remove_staged(self) -> None:
        if self.staging is not None and not is_in_scratch(self.staging):
            self.fs.remove_tree(self.staging)
        self.staging = None

    def _roll_back(self, journal: Journal, error: BaseException) -> None:
        """Undo the finished actions, also after an interrupt; add the result to the error."""
        try:
            journal.take_back()
        except StoreError:
            if isinstance(error, StoreError):
                error.code, error.subject = "half-done-change", (journal.id,)
            return
        self.fs.remove_tree(journal.folder)
        journal.retract()
        if isinstance(error, StoreError):
            error.hint = f"{error.hint}; nothing was changed" if error.hint else "nothing was changed"


AnyChange = Change[PlanReport]
