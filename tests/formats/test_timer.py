"""The sizes of the timer's files, and the places of their fields."""

from __future__ import annotations

import pytest

from store.formats import timer
from store.formats.fields import fields_of


def test_a_wheel_has_a_slot_for_each_second_of_two_weeks() -> None:
    assert (timer.WHEEL_SLOT_COUNT, timer.WHEEL_SIZE) == (1_209_600, 38_707_200)
    assert (timer.TIMER_BLANK.size, timer.TIMER_BLANK_MAGIC) == (16, int.from_bytes(b"\xcb\xd4\x31\x94", "big") - 2**32)
    assert timer.TIMER_MAGIC_MOST == 1 | 2 | 4 | 8


@pytest.mark.parametrize(
    ("form", "names", "starts"),
    [
        (timer.WHEEL_SLOT, timer.WHEEL_SLOT_NAMES, [0, 8, 16, 24, 28]),
        (timer.TIMER_UNIT, timer.TIMER_UNIT_NAMES, [0, 4, 12, 16, 24, 28, 36, 40, 44]),
        (timer.TIMER_CHECK, timer.TIMER_CHECK_NAMES, [0, 8, 16, 24, 32, 40, 48]),
    ],
)
def test_each_field_has_its_place(form: object, names: tuple[str, ...], starts: list[int]) -> None:
    found = fields_of(form, names, bytes(100), 0)  # type: ignore[arg-type]
    assert [(one.name, one.start) for one in found] == list(zip(names, starts, strict=True))
