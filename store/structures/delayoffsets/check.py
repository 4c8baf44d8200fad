"""Check that a broker can deliver the delayed messages that wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from store.errors import StoreError
from store.formats.topics import SCHEDULE_TOPIC
from store.structures.checked import CheckedStore
from store.structures.delayoffsets.findings import UNDELIVERABLE
from store.structures.delayoffsets.undeliverable import undeliverable
from store.structures.findings import Finding


def check(store: CheckedStore) -> Iterator[Finding]:
    """Yield a finding for each level with undeliverable messages, at the record of the first."""
    # An unreadable store has other findings.
    with suppress(StoreError), store.view() as opened:
        for one in undeliverable(opened):
            segment = [file for file in store.files.segments() if file.number <= one.log_offset][-1]
            name, queue = store.files.name_of(segment.path), (SCHEDULE_TOPIC, one.level - 1)
            yield Finding(UNDELIVERABLE, name, one.log_offset, *queue, one.count, one.detail)
