"""The counts of halves by topic: written when they changed, and again when a write failed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.engine.services import transaction_metrics
from store.engine.services.transaction_metrics import FILE_NAME, TransactionMetrics
from store.errors import StoreIOError
from store.files.filesystem import Filesystem
from store.layout import StoreLayout


def metrics_of(root: Path, now_ms: int = 7) -> TransactionMetrics:
    opened: Any = SimpleNamespace(layout=StoreLayout(root), fs=Filesystem())
    return TransactionMetrics(opened, lambda: now_ms)


def test_counts_are_written_when_they_changed_alone(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    file, metrics = tmp_path / "config" / FILE_NAME, metrics_of(tmp_path)
    metrics.persist()
    assert not file.exists()
    for count in (2, 3):
        metrics.add("T", count)
    metrics.persist()
    assert json.loads(file.read_text())["transactionCount"] == {"T": {"count": 5, "timeStamp": 7}}
    file.unlink()
    metrics.persist()
    assert not file.exists()


def test_counts_go_on_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    for count, now_ms in ((2, 7), (-1, 9)):
        metrics = metrics_of(tmp_path, now_ms)
        metrics.add("T", count)
        metrics.persist()
    found = json.loads((tmp_path / "config" / FILE_NAME).read_text())["transactionCount"]
    assert found == {"T": {"count": 1, "timeStamp": 9}}


def test_counts_that_could_not_be_written_are_written_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        raise StoreIOError("full", file=tmp_path)

    (tmp_path / "config").mkdir()
    metrics = metrics_of(tmp_path)
    metrics.add("T", 1)
    with monkeypatch.context() as patch:
        patch.setattr(transaction_metrics, "write_config_file", fail)
        with pytest.raises(StoreIOError):
            metrics.persist()
    metrics.persist()
    assert (tmp_path / "config" / FILE_NAME).exists()
