"""Lines for people about tables in a RocksDB, and about ordered consumption."""

from __future__ import annotations

from collections.abc import Iterator

from store.files.filesystem import Filesystem
from store.formats.wording import amount
from store.layout import ORDER_INFO, StoreLayout
from store.structures.registry import Present
from store.structures.tables.database import TABLES, database_folders


def describe(layout: StoreLayout, fs: Filesystem) -> Iterator[Present]:
    """Describe each RocksDB with tables, and ordered consumption.

    Source: ConfigRocksDBStorage, ConsumerOrderInfoManager (5.3.3).
    """
    for folder in dict.fromkeys(one for name in TABLES for one in database_folders(layout.config, name, fs)):
        yield Present("RocksDB configuration", f"config/{folder.name}", "the JSON files in config/ may be stale")
    if not fs.exists(layout.root / ORDER_INFO):
        return
    # Most stores lack the file, and its room is not imported for them.
    from store.structures.state.lines import lines_at

    lines = lines_at(layout, fs, ORDER_INFO)
    if lines:
        detail = f"offsets that groups took of {amount(len(lines), 'queue')}"
        yield Present("ordered consumption", ORDER_INFO, detail)
