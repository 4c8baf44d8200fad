"""The last address of a queue is the largest long."""

from __future__ import annotations

from store.structures.consumequeue.unit_array import LAST_ADDRESS


def test_an_address_is_a_signed_long() -> None:
    assert int.from_bytes(b"\x7f" + b"\xff" * 7, "big") == LAST_ADDRESS
