"""BloomFilter: the bits of a consumer group in the bit maps of consumequeue_ext.

    k = ceil(log 0.5 of f)                            positions of a text; f is the error rate
    m = ceil(n * log2(1/f) * log2(e)), up to × 8      bits of a map for n groups

    h = the first 64 bits of MurmurHash3 x64-128 of the text in UTF-8, seed 0; h1, h2 = its low and high half
    position i = 1 … k:   c = h1 + i * h2 as a Java int;  (c < 0 ? ~c : c) % m

Bit p is in byte p / 8, with the mask 1 << p % 8. A group's text is `group#topic`.

Source: BloomFilter, BitsArray, BloomFilterData (4.9.8, 5.3.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from store.formats.java import to_int


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """`hash_count` positions of a text in `bit_count` bits: k and m."""

    hash_count: int
    bit_count: int

    @classmethod
    def sized(cls, error_percent: int, group_count: int) -> BloomFilter:
        """Return the filter for maxErrorRateOfBloomFilter and expectConsumerNumUseFilter."""
        rate = error_percent / 100
        bits = math.ceil(group_count * math.log2(1 / rate) * math.log2(math.e))
        return cls(math.ceil(math.log(rate) / math.log(0.5)), -(-bits // 8) * 8)

    def positions(self, text: str) -> list[int]:
        """Return the bits of a text, one for each hash; two may be the same."""
        import mmh3

        low, _ = mmh3.hash64(text.encode(), 0, x64arch=True, signed=False)
        first, second = to_int(low), to_int(low >> 32)
        codes = [to_int(first + number * second) for number in range(1, self.hash_count + 1)]
        return [max(code, ~code) % self.bit_count for code in codes]

    def group_positions(self, group: str, topic: str) -> list[int]:
        """Return the bits of a consumer group's filter for a topic."""
        return self.positions(f"{group}#{topic}")

    def bit_map(self, positions: Iterable[int]) -> bytes:
        """Return a map with these bits."""
        found = bytearray(self.bit_count // 8)
        for position in positions:
            found[position // 8] |= 1 << position % 8
        return bytes(found)


def has_bits(bit_map: bytes, positions: Iterable[int]) -> bool:
    """Return whether all of the bits are in the map."""
    return all(bit_map[position // 8] & 1 << position % 8 for position in positions)
