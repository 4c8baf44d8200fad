"""The boundaries of records in a log."""

from __future__ import annotations


def boundaries(data: bytes) -> list[int]:
    """Where the records of a segment begin, and where the last one ends."""
    found, position = [0], 0
    while data[position + 4 : position + 8] == b"\xda\xa3\x20\xa7":
        position += int.from_bytes(data[position : position + 4], "big")
        found.append(position)
    return found
