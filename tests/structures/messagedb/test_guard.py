"""A put is refused if the database ends so far before the log's end that no start would reach it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.errors import UnsupportedFormat
from store.layout import segment_name
from store.structures.messagedb import guard
from store.structures.messagedb.keys import INDEX, LAST_OFFSET, TRANS

SEGMENT = 1000


@pytest.mark.parametrize(
    ("index", "halves", "segments", "told"),
    [
        (None, None, 20, None),
        (0, 0, 20, None),
        (1, None, 9, None),
        (999, None, 10, 999),
        (1000, None, 10, None),
        (None, 999, 10, 999),
        (None, 1000, 10, None),
        (5000, 4999, 14, 4999),
        (4999, 5000, 14, 4999),
        (5000, 5000, 14, None),
        (0, 4999, 14, 4999),
        (999, 999, 0, None),
    ],
)
def test_the_lower_end_must_lie_in_the_newest_nine_segments(
    index: int | None, halves: int | None, segments: int, told: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = {INDEX: index, TRANS: halves}
    longs = {family: {} if end is None else {LAST_OFFSET: end} for family, end in ends.items()}
    monkeypatch.setattr(guard, "may_hold_entries", lambda layout, fs: True)
    monkeypatch.setattr(guard, "open_database", lambda folder, scratch, fs: SimpleNamespace(longs=longs))
    names = ["junk", *(segment_name(SEGMENT * number) for number in reversed(range(segments)))]
    layout = cast(Any, SimpleNamespace(root=Path("store"), commitlogs=[Path("log")]))
    fs = cast(Any, SimpleNamespace(list_names=lambda folder: names))
    if told is None:
        guard.refuse(layout, fs)
        return
    with pytest.raises(UnsupportedFormat, match=f"end at log offset {told}, more than 9 segments") as caught:
        guard.refuse(layout, fs)
    assert (caught.value.file, caught.value.code) == (Path("store/rocksdbstore"), "message-database-behind")
