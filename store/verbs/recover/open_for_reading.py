"""Open a store for reading, without writes and without a lock.

Missing units and entries are built in a scratch folder. A store that was not shut down is shown as after recovery,
unless a live broker holds it or `as_is` is given.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from store.files.lock import is_locked
from store.files.overlay import Overlay
from store.files.scratch import Scratch
from store.opened.detect import OpenRequest, require_store
from store.opened.opened_store import OpenedStore
from store.reading.message_store import MessageStore
from store.verbs.recover.view import show_view


class ReadingOpener(NamedTuple):
    """An opener of one store for reading; the fields are options of open_store."""

    request: OpenRequest
    scratch: Path | None
    note: Callable[[str], None] | None

    def open(self, as_is: bool) -> MessageStore:
        """Return the store as readers see it, now and at each refresh."""
        require_store(self.request.layout, self.request.fs)
        notes: list[str] = []
        store = MessageStore(self._view(as_is, notes), reopen=lambda: self._view(as_is=True, notes=[]))
        store.notes = notes
        return store

    def _view(self, as_is: bool, notes: list[str]) -> OpenedStore:
        """Return the store as readers see it.

        `notes` gets sentences for readers, also about later findings.
        """

        def note(text: str) -> None:
            if text not in notes:
                notes.append(text)
                if self.note is not None:
                    self.note(text)

        asked, scratch = self.request, Scratch(self.scratch)
        try:
            opened = OpenedStore.for_view(asked.find(), asked.fs, asked.clock, Overlay(scratch.folder), note)
            opened.scratch = scratch
            is_live = is_locked(asked.layout.lock, asked.fs)
            show_view(opened, is_live=is_live, as_is=as_is, note=note, progress=asked.progress)
        except BaseException:
            scratch.close()
            raise
        return opened
