"""Dispatch requests: tags codes and keys of records, from one reading of their properties.

tags_codes (dispatch.py) and key_hashes (index.py) give one of the two alone.

Source: DispatchRequest, CommitLog.checkMessageAndReturnSize (4.9.8).
"""

from __future__ import annotations

from store.formats.columns import Column
from store.kernels.cython import Bytes, Long, Longs, Matrix, kernel
from store.kernels.dispatch import tags_code
from store.kernels.index import hash_keys, is_indexed
from store.kernels.native import start_of
from store.kernels.properties import PREFETCH_RECORDS, find_values, prefetch_properties


@kernel
def dispatch_requests(
    buffer: Bytes,
    columns: Matrix,
    first: Long,
    count: Long,
    delay_levels_ms: Longs,
    codes: Longs,
    with_tags: Long,
    hashes: Longs,
    records: Longs,
    state: Longs,
) -> Long:
    """Fill codes as tags_codes does, and hash keys as key_hashes does; return the number of hashes.

    codes                               filled for the records first … state[0] - 1, each at its record's number
    with_tags, hashes, records, state   as in key_hashes
    """
    data = start_of(buffer)
    found = 0
    row = first
    while row < count:
        prefetch_properties(data, columns, row + PREFETCH_RECORDS, count)
        start, size = columns[Column.PROPERTIES_POSITION, row], columns[Column.PROPERTIES_SIZE, row]
        # A key takes at least one byte and its separator.
        if found + size // 2 + 1 > len(hashes):
            break
        tags_at, tags_stop, delay_at, delay_stop, uniq_at, uniq_stop, keys_at, keys_stop = find_values(
            data, start, start + size
        )
        codes[row] = tags_code(data, columns, row, tags_at, tags_stop, delay_at, delay_stop, delay_levels_ms)
        if is_indexed(columns, row):
            tags_stop = tags_stop if with_tags else tags_at
            found = hash_keys(
                data, columns, row, uniq_at, uniq_stop, keys_at, keys_stop, tags_at, tags_stop, hashes, records, found
            )
        row += 1
    state[0] = row
    return found
