"""Amounts of bytes as the broker's report writes them."""

from __future__ import annotations

import pytest

from store.engine.services.runtime_info import describe_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), ((1 << 20) - 1, "1024.0 KiB"),
        (1 << 20, "1.0 MiB"), (1 << 30, "1.0 GiB"), (1 << 40, "1.0 TiB"), (1 << 50, "1.0 PiB"), (1 << 60, "1.0 EiB"),
        (1 << 62, "4.0 EiB"), (1 << 71, "2048.0 EiB"),
    ],
)  # fmt: skip
def test_an_amount_has_one_digit_and_the_largest_unit_that_fits(count: int, text: str) -> None:
    assert describe_bytes(count) == text
