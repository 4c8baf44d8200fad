"""Find records that do not match their property `__CRC32#` (5.x), and separate damage from copies.

A broker with enabledAppendPropCRC off copies a delayed, timed, retried or half message with an unchanged property
string. Such a copy has the CRC of the first record, and is not damaged.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from store import kernels
from store.formats import properties as names
from store.formats.run import Run

COPY_MARKS = frozenset(
    (
        names.REAL_TOPIC,
        "RETRY_TOPIC",
        "ORIGIN_MESSAGE_ID",
        "DLQ_ORIGIN_MESSAGE_ID",
        "TIMER_OUT_MS",
        "TRAN_MSG",
        "1ST_POP_TIME",
    )
)
"""Properties of a message that a broker stored a second time."""


def wrong_property_crcs(run: Run) -> Iterator[tuple[int, bool]]:
    """Yield the log offset of each record that does not match its CRC, and whether the message is a copy."""
    state, row = np.zeros(1, np.int64), 0
    while row < run.count:
        row = int(kernels.first_bad_properties_crc(run.buffer, run.array, row, run.count, state))
        if row < run.count:
            yield int(run.log_offsets[row]), not COPY_MARKS.isdisjoint(run.properties(row))
            row += 1
