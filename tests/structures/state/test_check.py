"""The findings on small files of state, as whole rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from store.files.store_reader import StoredFile
from store.structures.findings import Finding
from store.structures.state import check as checks

EPOCHS = "epochFileCheckpoint"


def files_of(epochs: str | None, *segments: tuple[int, int]) -> Any:
    return SimpleNamespace(
        segments=lambda: [StoredFile(f"commitlog/{start}", start, size, 0) for start, size in segments],
        file_at=lambda path: StoredFile(path, 0, 1, 0) if epochs is not None else None,
        read=lambda path: (epochs or "").encode(), name_of=lambda path: f"/store/{path}", queues=list,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("epochs", "segments", "beyond"),
    [
        ("2\n0\n1-0\n4-200\n", [(0, 100), (100, 100)], None),
        ("2\n0\n1-0\n4-201\n", [(0, 100), (100, 100)], (4, 201, 200)),
        ("2\n0\n1-0\n4-201\n", [], None),
        ("0\n0\n", [(0, 100)], None),
        (None, [(0, 100)], None),
    ],
)
def test_a_file_s_finding_is_at_its_beginning(
    epochs: str | None, segments: list[tuple[int, int]], beyond: tuple[int, int, int] | None
) -> None:
    found = list(checks._epochs_beyond_the_log(files_of(epochs, *segments)))
    if beyond is None:
        assert found == []
    else:
        epoch, start, end = beyond
        detail = f"epoch {epoch} begins at log offset {start}, the last segment ends at {end}"
        assert found == [Finding("state-file", f"/store/{EPOCHS}", 0, detail=detail)]


def test_each_line_with_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [SimpleNamespace(file="a", name="one", fault=""), SimpleNamespace(file="b", name="two", fault="torn")]
    monkeypatch.setattr(checks, "state_lines", lambda files: lines)
    store: Any = SimpleNamespace(files=files_of(None))
    assert list(checks.check(store)) == [Finding("state-file", "/store/b", 0, detail="two: torn")]
