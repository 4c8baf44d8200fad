"""rebuild: consume queues and index from the log, into a staging folder, and then into the store.

    1. build    either engine fills the staging folder, laid out like a store's root
                local: store.verbs.rebuild.local
                Spark: store.query.spark.rebuild
    2. publish  a Change: every staged file takes its place by rename      (store.verbs.rebuild.publish)

The store stays unchanged until step 2. Step 2 is the same for both engines. The log ends at the first bytes that are no
valid record, as in a recovery; CRCs are verified.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from store.broker_line import BrokerLine
from store.config import StoreConfig
from store.errors import BadRequest
from store.formats.checkpoint_page import CheckpointPage
from store.formats.given import check_flag, check_number, check_text
from store.formats.run import Run
from store.structures.commitlog.scan import ScanRules

Queue = tuple[str, int]


@dataclass(frozen=True, slots=True)
class RebuildScope:
    """The scope of a rebuild: the queues (all, of a topic, or one), the index, or both.

    confirmed  in controller mode: records that end after this log offset get no units and entries
    with_tags  whether tags get index entries, as from a broker of 5.4 and later
    """

    queues: bool = True
    index: bool = True
    topic: str | None = None
    queue_id: int | None = None
    confirmed: int | None = None
    with_tags: bool = False

    def __post_init__(self) -> None:
        for name in ("queues", "index", "with_tags"):
            check_flag(name, getattr(self, name))
        if self.topic is not None:
            check_text("topic", self.topic)
        if self.queue_id is not None:
            check_number("queue_id", self.queue_id)
            if self.topic is None:
                raise BadRequest(f"queue_id {self.queue_id} is given without a topic")
        if self.confirmed is not None:
            check_number("confirmed", self.confirmed, 64, 0)

    @property
    def is_narrow(self) -> bool:
        return self.topic is not None

    def wants(self, queue: Queue) -> bool:
        return self.topic in (None, queue[0]) and self.queue_id in (None, queue[1])

    def due(self, run: Run) -> Run:
        """Return the records that get units and entries."""
        return run if self.confirmed is None else run.up_to(self.confirmed)


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """The result of a rebuild.

    `log_end` is the valid end of the log; `stopped_by` gives the reason. `findings` describe unreadable pages before
    it, messages out of order, and queues whose end can't be read. `last_record` is the log offset of the last record,
    -1 without records.
    """

    log_end: int
    stopped_by: str
    record_count: int
    findings: tuple[str, ...] = ()
    last_record: int = -1

    def checkpoint(self, line: BrokerLine, last_ms: int) -> CheckpointPage:
        """Return the checkpoint of a new store whose queues reach the log's end.

        last_ms  the store time of the last record
        """
        flushed_at = max(self.last_record, 0) if line.marks_flushed_record else 0
        return CheckpointPage(physic_ms=last_ms, logics_ms=last_ms, logics_log_offset=flushed_at)


Rebuild = Callable[[Path, StoreConfig, RebuildScope, ScanRules], RebuildReport]
"""Step 1 by either engine: build the scope's files under a folder. The rules define a valid record."""
