"""Bloom filters of consumer groups: sizes, positions and maps as a broker's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats.bloom import BloomFilter, has_bits

BROKER = BloomFilter.sized(20, 32)


@pytest.mark.parametrize(
    ("error_percent", "groups", "hashes", "bits"),
    [(20, 32, 3, 112), (20, 64, 3, 216), (10, 128, 4, 616), (1, 32, 7, 312), (25, 64, 2, 192), (50, 128, 1, 192)],
)
def test_the_sizes_are_a_brokers(error_percent: int, groups: int, hashes: int, bits: int) -> None:
    assert BloomFilter.sized(error_percent, groups) == BloomFilter(hashes, bits)


@pytest.mark.parametrize(
    ("group", "topic", "positions", "bit_map"),
    [
        ("CG", "T", [0, 73, 34], "0100000004000000000200000000"),
        ("groupA", "TopicTest", [49, 5, 28], "2000001000000200000000000000"),
        ("消费组", "主题", [101, 21, 111], "0000200000000000000000002080"),
    ],
)
def test_the_positions_and_maps_are_a_brokers(group: str, topic: str, positions: list[int], bit_map: str) -> None:
    found = BROKER.group_positions(group, topic)
    assert (found, BROKER.bit_map(found).hex()) == (positions, bit_map)


@given(st.lists(st.text(max_size=20), max_size=5), st.text(max_size=20))
def test_a_map_has_the_bits_of_all_that_was_put_in_and_of_nothing_else(texts: list[str], other: str) -> None:
    bits = {bit for text in texts for bit in BROKER.positions(text)}
    bit_map = BROKER.bit_map(bits)
    assert len(bit_map) == 14
    assert all(has_bits(bit_map, BROKER.positions(text)) for text in texts)
    assert has_bits(bit_map, BROKER.positions(other)) == (set(BROKER.positions(other)) <= bits)
