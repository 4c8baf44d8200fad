"""What kernels take and give, written as "long(bytes, long)".

long, flag        int64, bool
bytes, writable   uint8 [n], side by side; the second may be written to
longs, matrix     int64 [n], int64 [n, m]
none              no result
"""

from __future__ import annotations

from typing import NamedTuple

ARRAYS = {"bytes": 1, "writable": 1, "longs": 1, "matrix": 2}
"""Kinds of arrays and their number of dimensions."""


class Signature(NamedTuple):
    """The names of what a kernel gives and takes, such as "long" and ["bytes", "long"]."""

    result: str
    parameters: list[str]


def parse_signature(text: str) -> Signature:
    result, _, parameters = text.rstrip(")").partition("(")
    return Signature(result, [name.strip() for name in parameters.split(",")])
