"""Buffers are lent one by one, and come back as zeros."""

from __future__ import annotations

from store.files.transient_pool import TransientStorePool


def test_buffers_are_lent_until_none_is_left_and_zeroed_when_they_come_back() -> None:
    pool = TransientStorePool(2, 4096)
    assert pool.available_count == 2
    first, second = pool.borrow(), pool.borrow()
    assert first is not None
    assert second is not None
    assert (pool.borrow(), pool.available_count, len(first)) == (None, 0, 4096)
    first[:2], first[-1:] = b"ab", b"c"
    pool.give_back(first)
    assert (pool.available_count, bytes(first)) == (1, bytes(4096))
    assert pool.borrow() is first
    pool.give_back(second)
    pool.destroy()
    assert (pool.available_count, pool.borrow()) == (0, None)
