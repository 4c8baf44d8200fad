"""Where a pass over the properties stops because the keys of the next record may not fit."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from store.formats.index_page import index_key
from store.formats.java import key_hash
from store.formats.properties import decode_properties, split_keys
from tests.support.logs import log_of
from tests.support.twice import both, scan

PROPERTIES = b"KEYS\x01a b c d"
MOST_KEYS = len(PROPERTIES) // 2 + 1


@pytest.mark.parametrize(
    ("room", "rows"),
    [
        (MOST_KEYS - 1, 0), (MOST_KEYS, 1), (MOST_KEYS + 3, 1), (MOST_KEYS + 4, 2),
        (MOST_KEYS + 32, 9), (MOST_KEYS + 33, 9), (1000, 9),
    ],
)  # fmt: skip
@pytest.mark.parametrize("with_codes", [False, True])
def test_a_record_is_read_if_the_most_keys_of_its_size_fit(with_codes: bool, room: int, rows: int) -> None:
    data = log_of([{"properties": PROPERTIES, "topic": b"T%d" % number} for number in range(9)])
    columns = scan(data).matrix

    def ask(kernels: ModuleType) -> tuple[int, int, list[int], list[int]]:
        codes = np.full(9, -7, np.int64)
        # A place behind the room is not written.
        hashes, records, state = np.full(room, -1, np.int64), np.full(room, -1, np.int64), np.zeros(1, np.int64)
        if with_codes:
            levels = np.zeros(0, np.int64)
            found = kernels.dispatch_requests(data, columns, 0, 9, levels, codes, False, hashes, records, state)
            assert (codes >= 0).tolist() == [row < state[0] for row in range(9)]
        else:
            found = kernels.key_hashes(data, columns, 0, 9, False, hashes, records, state)
        return int(found), int(state[0]), hashes[:found].tolist(), records[:found].tolist()

    found, read, hashes, records = both(ask)
    assert (found, read) == (4 * rows, rows)
    assert records == [row for row in range(rows) for _ in range(4)]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize(
    ("properties", "sys_flag", "with_tags", "count"),
    [
        (b"", 0, 1, 0),
        (b"X\x01y", 0, 1, 0),
        (b"UNIQ_KEY\x01u", 0, 0, 1),
        (b"KEYS\x01k", 0, 0, 1),
        (b"KEYS\x01 ", 0, 0, 0),
        (b"KEYS\x01  a  b ", 0, 0, 2),
        (b"TAGS\x01t", 0, 0, 0),
        (b"TAGS\x01t", 0, 1, 1),
        (b"UNIQ_KEY\x01u\x02KEYS\x01a b\x02TAGS\x01t", 0, 0, 3),
        (b"UNIQ_KEY\x01u\x02KEYS\x01a b\x02TAGS\x01t", 0, 1, 4),
        (b"UNIQ_KEY\x01u\x02KEYS\x01a b\x02TAGS\x01t", 4, 1, 4),
        (b"UNIQ_KEY\x01u\x02KEYS\x01a b\x02TAGS\x01t", 8, 1, 4),
        (b"UNIQ_KEY\x01u\x02KEYS\x01a b\x02TAGS\x01t", 0xC, 1, 0),
    ],
)
def test_a_record_has_a_hash_for_each_key_but_not_when_it_is_rolled_back(
    properties: bytes, sys_flag: int, with_tags: int, count: int
) -> None:
    data = log_of([{"properties": properties, "sys_flag": sys_flag}])
    columns = scan(data).matrix

    def ask(kernels: ModuleType) -> list[int]:
        hashes, records, state = np.full(99, -1, np.int64), np.full(99, -1, np.int64), np.zeros(1, np.int64)
        found = kernels.key_hashes(data, columns, 0, 1, with_tags, hashes, records, state)
        codes = np.zeros(1, np.int64)
        again, other = np.full(99, -1, np.int64), np.full(99, -1, np.int64)
        levels = np.zeros(0, np.int64)
        assert kernels.dispatch_requests(data, columns, 0, 1, levels, codes, with_tags, again, other, state) == found
        assert (again.tolist(), other.tolist()) == (hashes.tolist(), records.tolist())
        assert (hashes[found:] == -1).all()
        return [int(one) for one in hashes[:found]]

    read = decode_properties(properties) if sys_flag != 0xC else {}
    keys = [*([read["UNIQ_KEY"]] if "UNIQ_KEY" in read else []), *split_keys(read.get("KEYS", ""))]
    keys += [f"T#{read['TAGS']}"] if with_tags and "TAGS" in read else []
    topic = data[columns[4, 0] : columns[4, 0] + columns[5, 0]].decode()
    assert both(ask) == [key_hash(index_key(topic, key)) for key in keys]
    assert len(keys) == count
