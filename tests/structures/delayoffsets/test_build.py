"""The queue offset at which a broker goes on with a level."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.errors import UncleanStore
from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.delayoffsets import build
from store.structures.delayoffsets.build import LevelOffset, _next_offset, plan_delay_offsets
from store.structures.delayoffsets.files import encode_delay_offsets
from store.structures.delayoffsets.review import DelayedMessage, DelayLevel, DelayState
from store.structures.tables.data_version import DataVersion

D, P = DelayState.DELIVERED, DelayState.PENDING


@pytest.mark.parametrize(
    ("states", "following"),
    [
        ({}, 2),
        ({1: P}, 2),
        ({2: D}, 3),
        ({2: D, 3: D}, 4),
        ({2: P, 3: D}, 2),
        ({2: D, 3: P, 4: P}, 3),
        ({2: DelayState.ASSUMED, 3: DelayState.DUPLICATE, 4: DelayState.LOST}, 5),
        ({2: DelayState.DUE}, 2),
        ({2: D, 3: DelayState.BLOCKED}, 3),
    ],
)
def test_a_level_goes_on_at_its_first_message_that_waits(states: dict[int, DelayState], following: int) -> None:
    level = DelayLevel(3, 100, 0, 9, 2)
    messages = [DelayedMessage(state, 3, offset) for offset, state in states.items()]
    others = [DelayedMessage(P, 2, 2), DelayedMessage(D, 4, 8)]
    assert _next_offset(level, [*messages, *others]) == following


NOW_MS = 1_800_000_000_000


def opened(root: Path, line: BrokerLine = LINE_4_9) -> Any:
    fs, layout = Filesystem(), StoreLayout(root)
    overlay, abort = SimpleNamespace(folder=Path(mkdtemp(dir=root))), SimpleNamespace(exists=(root / "abort").exists)
    return SimpleNamespace(overlay=overlay, abort=abort, layout=layout, fs=fs, line=line)


def planned(
    root: Path, levels: list[DelayLevel], monkeypatch: pytest.MonkeyPatch, line: BrokerLine = LINE_4_9
) -> tuple[list[LevelOffset], bytes | None]:
    """The levels of the plan, and the file that it would write; one message of each level is delivered."""
    messages = [DelayedMessage(D, level.level, level.next_offset) for level in levels if level.max_offset]
    monkeypatch.setattr(build, "review_delays", lambda opened, time_ms: (levels, messages))
    change = plan_delay_offsets(opened(root, line), NOW_MS)
    (staged,) = (one.staged.read_bytes() for one in cast(Any, change.actions)) if change.actions else (None,)
    return change.report.levels, staged


@pytest.mark.parametrize(
    ("saved", "high", "following", "written"),
    [
        # A level that nothing was delivered of stays out of the file, or keeps the 0 that it has.
        (None, 0, 0, None),
        (0, 0, 0, None),
        (3, 0, 0, {2: 6, 5: 0}),
        (None, 1, 1, {2: 6, 5: 1}),
        (0, 1, 1, {2: 6, 5: 1}),
        (7, 8, 8, {2: 6, 5: 8}),
    ],
)
def test_the_file_is_written_where_the_offset_of_a_level_changes(
    saved: int | None,
    high: int,
    following: int,
    written: dict[int, int] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Beside a level that is right, unless the file is written anyway.
    other = DelayLevel(2, 100, 0, 9, 5) if written else DelayLevel(2, 100, 0, 0, None)
    rows, data = planned(tmp_path, [other, DelayLevel(5, 100, 0, high, saved)], monkeypatch)
    assert rows == [LevelOffset(2, *((5, 6) if written else (None, 0))), LevelOffset(5, saved, following)]
    assert data == (None if written is None else encode_delay_offsets(written, None))


def test_a_file_of_5_x_has_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    level = DelayLevel(2, 100, 0, 9, 5)
    new = DataVersion(timestamp_ms=NOW_MS)
    assert planned(tmp_path, [level], monkeypatch, LINE_5_3)[1] == encode_delay_offsets({2: 6}, new)
    (tmp_path / "config").mkdir()
    old = DataVersion(timestamp_ms=7)
    (tmp_path / "config/delayOffset.json").write_bytes(encode_delay_offsets({2: 5}, old))
    assert planned(tmp_path, [level], monkeypatch, LINE_5_3)[1] == encode_delay_offsets({2: 6}, old)
    assert planned(tmp_path, [level], monkeypatch)[1] == encode_delay_offsets({2: 6}, None)


def test_a_store_that_was_killed_gets_no_plan(tmp_path: Path) -> None:
    (tmp_path / "abort").touch()
    with pytest.raises(UncleanStore, match="did not shut down") as refused:
        plan_delay_offsets(opened(tmp_path), NOW_MS)
    assert (refused.value.code, refused.value.file) == ("unclean-copy", tmp_path / "abort")
