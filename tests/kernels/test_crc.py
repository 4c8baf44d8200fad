"""The CRC-32 that compiled kernels are given: isal's where it is right, else the tables that they have themselves."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from store.kernels import crc


class Compiled(SimpleNamespace):
    """A compiled module with a CRC of its own."""

    def __init__(self, crc32: Callable[[bytes], int]) -> None:
        super().__init__(crc32=crc32, used=[])

    def use_crc(self, address: int) -> None:
        self.used.append(address)


def wrong_at(size: int) -> Callable[[bytes], int]:
    right = zlib.crc32
    return lambda data: right(data) ^ (len(data) == size)


def test_the_function_of_isal_is_used_without_a_look_at_the_modules_own() -> None:
    compiled = Compiled(wrong_at(0))
    assert crc.choose_crc(compiled)  # type: ignore[arg-type]
    assert compiled.used == [crc.isal_address()] != [0]


@pytest.mark.parametrize(
    ("function", "is_right"),
    [(zlib.crc32, True), *((wrong_at(size), False) for size in (0, 1, 16, 255, 299, 5000))],
)
def test_without_isal_the_modules_own_function_has_to_be_right_for_every_size(
    function: Callable[[bytes], int], is_right: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)
    compiled = Compiled(function)
    assert crc.choose_crc(compiled) == is_right  # type: ignore[arg-type]
    assert compiled.used == [0]


def test_a_function_of_isal_that_is_wrong_has_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crc.zlib, "crc32", wrong_at(5000))
    assert crc.isal_address() == 0
