"""The note of a recovered store: how far its queues and index were whole, while nothing before has changed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.files.filesystem import Filesystem
from store.opened.verified import (
    WORTH_REMEMBERING_BYTES,
    index_verified_until,
    remember_verified,
    verified_until,
)

SIZE, END = 1 << 30, (1 << 30) + 500


def opened(own: Path, *, min_offset: int = 0, end: int = END, mtime_ms: int = 7, **parts: Any) -> Any:
    """A store with two segments; `queues` and `index` are its queues, and its index files with their ends."""
    segments = [
        SimpleNamespace(file_start=start, size=SIZE, mtime_ms=mtime_ms, path=Path(f"{start:020d}"))
        for start in (0, SIZE)
    ]
    index = parts.get("index", {"b": 300, "a": 400})
    queues: dict[Any, None] = dict.fromkeys(parts.get("queues", [("T", 0), ("T", 2), ("U", 1)]))
    queue_set = type("Queues", (), {"__contains__": lambda _, key: key in queues, "names": lambda _: list(queues)})()
    return SimpleNamespace(
        fs=Filesystem(),
        layout=SimpleNamespace(own=own),
        config=SimpleNamespace(writes_index_files=parts.get("writes_index_files", True)),
        queues=queue_set,
        index=SimpleNamespace(
            files=[
                SimpleNamespace(path=Path(name), header=SimpleNamespace(end_log_offset=at))
                for name, at in index.items()
            ]
        ),
        log=SimpleNamespace(min_offset=min_offset, max_offset=end, segments=SimpleNamespace(files=segments)),
    )


def test_a_note_has_the_log_s_end_whole_segments_queues_and_newest_keys(tmp_path: Path) -> None:
    note = tmp_path / "own" / "verified.json"
    remember_verified(opened(note.parent))
    assert json.loads(note.read_text()) == {
        "log_end": END, "segments": [[f"{0:020d}", SIZE, 7]], "queues": {"T": [0, 2], "U": [1]},
        "index": {"b": 300, "a": 400},
    }  # fmt: skip
    remember_verified(opened(note.parent, writes_index_files=False, end=2 * SIZE))
    again = json.loads(note.read_text())
    assert ("index" in again, [one[0] for one in again["segments"]]) == (False, [f"{0:020d}", f"{SIZE:020d}"])


@pytest.mark.parametrize(("size", "is_noted"), [(WORTH_REMEMBERING_BYTES - 1, False), (WORTH_REMEMBERING_BYTES, True)])
def test_a_short_log_has_no_note(size: int, is_noted: bool, tmp_path: Path) -> None:
    remember_verified(opened(tmp_path, min_offset=100, end=100 + size))
    assert (tmp_path / "verified.json").exists() == is_noted


@pytest.mark.parametrize(
    ("parts", "queues_until", "index_until"),
    [
        ({}, END, END),
        ({"queues": [("T", 0), ("T", 2), ("U", 1), ("V", 0)]}, END, END),
        ({"queues": [("T", 0), ("U", 1)]}, 0, END),
        ({"index": {"a": 400}}, END, 0),
        ({"index": {"a": 400, "b": 299}}, END, 0),
        ({"index": {"a": 401, "b": 300, "c": 1}}, END, END),
        ({"index": {"a": 400}, "min_offset": 300}, END, 0),
        ({"index": {"a": 400}, "min_offset": 301}, END, END),
        ({"mtime_ms": 8}, 0, 0),
    ],
)
def test_a_note_is_true_while_segments_queues_and_keys_are_there(
    parts: dict[str, Any], queues_until: int, index_until: int, tmp_path: Path
) -> None:
    remember_verified(opened(tmp_path))
    now = opened(tmp_path, **parts)
    assert (verified_until(now), index_verified_until(now)) == (queues_until, index_until)


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", "5", '{"queues": 5}', '{"queues": {}, "index": {}}'])
def test_without_a_readable_note_nothing_is_known(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "verified.json").write_text(text)
    assert (verified_until(opened(tmp_path)), index_verified_until(opened(tmp_path))) == (0, 0)
