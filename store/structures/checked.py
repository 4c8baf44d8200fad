"""A store under check, as the rooms of its structures see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.layout import StoreLayout

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore


@dataclass(frozen=True, slots=True)
class CheckedStore:
    """A store under check.

    layout, fs       where its files lie; a mirror of a remote store's
    config           the settings given, and a broker's defaults
    view             opens the store as it is, for what only its log tells
    has_queue_files  whether consume queues have files
    horizon          the log offset up to which it is checked, as a writer holds it; None without one
    confirmed        the confirm offset of a broker in controller mode: records after it may have no units
    """

    files: StoreReader
    layout: StoreLayout
    fs: Filesystem
    settings: Mapping[str, Any]
    view: Callable[[], AbstractContextManager[OpenedStore]]
    has_queue_files: bool
    horizon: int | None = None
    confirmed: int | None = None

    @property
    def config(self) -> StoreConfig:
        return StoreConfig().with_settings(self.settings)

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        return self.config.delay_levels_ms
