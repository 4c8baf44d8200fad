"""Notes on the differences of another broker version for the tables under config/.

Source: BrokerController.initializeMetadata, ConfigRocksDBStorage (5.3.3, 5.5.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.formats.wording import amount
from store.structures.tables.config_file import read_config_file
from store.structures.tables.database import METADATA, TABLES
from store.structures.tables.fastjson import members
from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore


def notes(own: OpenedStore, other: OpenedStore) -> Iterator[Trap]:
    """Yield a note on tables of config/metadata: a version before 5.4 does not read it."""
    if other.line.matches_first_record or not own.line.matches_first_record:
        return
    for name, table in TABLES.items():
        main = read_config_file(own.layout.config, name, own.fs).main
        count = len(members(main.document.get(table.member))) if main.path.name == METADATA else 0
        if count:
            detail = (
                f"config/{METADATA} is not read, and has {amount(count, 'entry')} of {name}, which is older or missing"
            )
            yield Trap("tables-in-one-database", detail, (name, count))
