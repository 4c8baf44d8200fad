"""The size of timerlog files, from the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
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
