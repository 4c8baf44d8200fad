"""The entries of the timer's files as a dump shows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from store.errors import DamagedFile
from store.files.store_reader import StoreReader
from store.formats.timer import TIMER_BLANK, TIMER_BLANK_MAGIC, TIMER_CHECK, WHEEL_SIZE
from store.structures.entry import Asked, Entry
from store.structures.timer.files import SLOT_DTYPE, UNIT_DTYPE
from store.structures.timer.rows import files, rows

LOG = "timerlog/00000000000000001000"


def entries(root: Path, name: str, data: bytes) -> list[Entry]:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    reader = StoreReader(str(root))
    (file,) = files(reader, Asked())
    return list(rows(reader, file, Asked()))


def units(*magics: int, size: int = 52) -> bytes:
    return np.array([(size, row - 1, magic, 100 * row, 7, 8, 9, 10, 0) for row, magic in enumerate(magics)],
                    UNIT_DTYPE).tobytes()  # fmt: skip


BLANK = TIMER_BLANK.pack(16, 0, TIMER_BLANK_MAGIC)
FIRST, SECOND = ("unit", 1000, 0), ("unit", 1052, 52)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (units(1) + bytes(100), [FIRST]),
        (units(1, 1) + bytes(100), [FIRST, SECOND]),
        (units(0, 15) + bytes(100), [FIRST, SECOND]),
        (units(1, 16) + bytes(100), [FIRST, ("damage", 1052, 52)]),
        (units(1, -1) + bytes(100), [FIRST, ("damage", 1052, 52)]),
        (units(1) + units(1, size=51), [FIRST, ("damage", 1052, 52)]),
        (units(1) + BLANK, [FIRST, ("blank", 1052, 52)]),
        (units(1) + BLANK + units(1), [FIRST, ("blank", 1052, 52)]),
        (units(1) + units(1)[:51], [FIRST]),
        (units(1) + bytes(52) + units(1), [FIRST]),
        (BLANK, [("blank", 1000, 0)]),
        (BLANK[:15], []),
    ],
)
def test_the_log_has_entries_up_to_a_blank_zeros_or_damage(
    data: bytes, found: list[tuple[str, int, int]], tmp_path: Path
) -> None:
    given = entries(tmp_path, LOG, data)
    assert [(one.kind, one.number, one.start) for one in given] == found
    assert [one.is_fault for one in given] == [kind == "damage" for kind, _, _ in found]
    for one in given:
        start, size = one.start, 16 if one.kind == "blank" else 52
        assert (one.path, one.data) == (LOG, data[start : start + size])
        assert (
            one.extra
            == {
                "unit": {"deliver_timestamp_ms": 7 if one.start == 0 else 107},
                "damage": {"detail": "no entry of a timer log"},
                "blank": {},
            }[one.kind]
        )


def test_the_entries_of_the_logs_first_file_count_from_0(tmp_path: Path) -> None:
    given = entries(tmp_path, f"timerlog/{0:020d}", units(1, 1) + bytes(100))
    assert [(one.number, one.start) for one in given] == [(0, 0), (52, 52)]


@pytest.mark.parametrize("size", [0, 55, 56, 4096])
def test_a_checkpoint_is_one_entry_of_seven_numbers(size: int, tmp_path: Path) -> None:
    data = TIMER_CHECK.pack(1, 2, 3, 4, 5, 6, 7).ljust(4096, b"\0")[:size]
    (one,) = entries(tmp_path, "config/timercheck", data)
    assert (one.kind, one.path, one.number, one.start) == ("check", "config/timercheck", 0, 0)
    assert one.data == data[:56].ljust(56, b"\0")
    assert [field.value for field in one.fields] == [*TIMER_CHECK.unpack(one.data)]


def test_a_wheel_has_an_entry_for_each_slot_that_holds_anything(tmp_path: Path) -> None:
    wheel = np.zeros(WHEEL_SIZE // 32, SLOT_DTYPE)
    wheel[1], wheel[5], wheel[-1] = (7, 1, 2, 3, 4), (0, 0, 0, 0, 1), (9, 1, 1, 1, 0)
    found = entries(tmp_path, "timerwheel", wheel.tobytes())
    last = len(wheel) - 1
    assert [(one.kind, one.number, one.start) for one in found] == [
        ("slot", 1, 32), ("slot", 5, 160), ("slot", last, 32 * last)
    ]  # fmt: skip
    assert [[field.value for field in one.fields] for one in found] == [
        [7, 1, 2, 3, 4], [0, 0, 0, 0, 1], [9, 1, 1, 1, 0]
    ]  # fmt: skip


@pytest.mark.parametrize("size", [WHEEL_SIZE - 32, WHEEL_SIZE + 1])
def test_a_wheel_of_another_length_is_damaged(size: int, tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match=f"a wheel has {WHEEL_SIZE} bytes, this one {size}"):
        entries(tmp_path, "timerwheel", bytes(size))
