"""The size of timerlog files and the milliseconds of a slot, from the files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.timer.files import SLOT_DTYPE, UNIT_DTYPE, UNIT_SIZE
from store.structures.timer.infer import infer_settings


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ((), {}),
        ((0,), {}),
        ((1100,), {"mappedFileSizeTimerLog": 1100}),
        ((1100, 1100, 600), {"mappedFileSizeTimerLog": 1100}),
    ],
)
def test_most_files_tell_the_size(sizes: tuple[int, ...], told: dict[str, object], tmp_path: Path) -> None:
    for number, size in enumerate(sizes):
        path = tmp_path / "timerlog" / f"{number * 1100:020d}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(size))
    (tmp_path / "timerlog.txt").write_bytes(bytes(7))
    assert infer_settings(StoreLayout(tmp_path), Filesystem()) == told


SECOND, DAMAGED = 1_700_000_000, 1 << 50


@pytest.mark.parametrize(
    ("times", "precision_ms"),
    [
        ([], None),
        ([SECOND], 1000),
        ([SECOND * 10], 100),
        ([0, 0, SECOND * 100, 0], 10),
        ([SECOND * 1000, SECOND * 1000 + 1], 1),
        ([-1, SECOND * 10], 100),
        ([DAMAGED, SECOND * 10, SECOND * 10 + 1], 100),
        ([*[0] * 5000, SECOND * 10], 100),
    ],
)
@pytest.mark.parametrize("name", ["timerwheel", "timerwheel.676"])
def test_the_first_used_slots_of_a_wheel_tell_the_precision(
    name: str, times: list[int], precision_ms: int | None, tmp_path: Path
) -> None:
    slots = np.zeros(len(times), SLOT_DTYPE)
    slots["time"] = times
    (tmp_path / name).write_bytes(slots.tobytes())
    assert infer_settings(StoreLayout(tmp_path), Filesystem()).get("timerPrecisionMs") == precision_ms


@pytest.mark.parametrize(
    ("times", "precision_ms"),
    [([], None), ([0, 5000], 1000), ([0, 100], 100), ([200, 1000, 10], 10), ([1, 1000], 1)],
)
def test_without_a_used_wheel_the_first_units_tell_it(
    times: list[int], precision_ms: int | None, tmp_path: Path
) -> None:
    units = np.zeros(len(times) + 1, UNIT_DTYPE)
    units["size"][:-1], units["write_time_ms"][:-1], units["delay_ms"][:-1] = UNIT_SIZE, 7, np.array(times) - 7
    (tmp_path / "timerlog").mkdir()
    (tmp_path / "timerlog" / f"{0:020d}").write_bytes(units.tobytes())
    (tmp_path / "timerwheel").write_bytes(bytes(320))
    assert infer_settings(StoreLayout(tmp_path), Filesystem()).get("timerPrecisionMs") == precision_ms
