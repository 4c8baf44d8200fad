"""The store under check, opened as it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from store.files.filesystem import Filesystem
from store.files.overlay import Overlay
from store.files.scratch import Scratch
from store.kernels.native import clock_ms
from store.layout import StoreLayout
from store.opened.detect import find_store
from store.opened.opened_store import OpenedStore
from store.verbs.recover.view import show_view


@contextlib.contextmanager
def open_as_it_is(
    layout: StoreLayout, settings: Mapping[str, object], compat: str | None = None, fs: Filesystem | None = None
) -> Iterator[OpenedStore]:
    """Open a store for reading without a recovery. Its notes are dropped: the findings cover them."""
    fs = fs or Filesystem()
    with Scratch() as scratch:
        found, overlay = find_store(layout, settings, fs, compat=compat), Overlay(scratch.folder)
        opened = OpenedStore.for_view(found, fs, clock_ms, overlay, lambda note: None)
        try:
            show_view(opened, is_live=False, as_is=True, note=lambda note: None, progress=None)
            yield opened
        finally:
            opened.close()
