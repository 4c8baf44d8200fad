"""CheckedStore: the store that the checks of the rooms get."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from store.broker_line import BrokerLine
from store.config import StoreConfig
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.layout import StoreLayout

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore


@dataclass(frozen=True, slots=True)
class CheckedStore:
    """A store under check.

    layout, fs       paths of its files; for a remote store those of a mirror
    line             the broker version that wrote it, by its traces
    config           the given settings over a broker's defaults
    view             opens the store for reading, for facts that only its log holds
    horizon          the log offset at which the check ends, as a writer has the store open; None without a writer
    confirmed        the confirm offset of a broker in controller mode: records after it may have no units
    knows_delays     whether messageDelayLevel is given, and not inferred
    """

    files: StoreReader
    layout: StoreLayout
    fs: Filesystem
    line: BrokerLine
    settings: Mapping[str, Any]
    view: Callable[[], AbstractContextManager[OpenedStore]]
    horizon: int | None = None
    confirmed: int | None = None
    knows_delays: bool = False

    @property
    def config(self) -> StoreConfig:
        return StoreConfig().with_settings(self.settings)

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        return self.config.delay_levels_ms
