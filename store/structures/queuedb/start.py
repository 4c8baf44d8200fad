"""Find a queue database in another folder than a 5.5 broker looks for it: the broker does not start.

Source: RocksDBConsumeQueueStore (5.5.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.broker_line import LINE_5_5
from store.files.rocksdb_files import CURRENT
from store.structures.trap import Trap

if TYPE_CHECKING:
    from store.opened.opened_store import OpenedStore

REFUSAL = "IllegalStateException: find RocksDBConsumeQueue in original/separate path, maybe incompatible config."


def blockers(opened: OpenedStore) -> Iterator[Trap]:
    """Find the database that is not where useSeparateStorePathForRocksdbCQ has it, or is in both folders.

    Where no setting tells, the broker's is taken to fit the only database.
    """
    layout = opened.layout
    found = {
        is_own
        for is_own, folder in ((False, layout.consumequeue), (True, layout.consumequeue_rocksdb))
        if opened.fs.exists(folder / CURRENT)
    }
    wanted = opened.config.use_separate_store_path_for_rocksdb_cq
    if opened.line == LINE_5_5 and (len(found) == 2 or (wanted is not None and found == {not wanted})):
        yield Trap("queue-database-elsewhere", REFUSAL)
