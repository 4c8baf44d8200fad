"""A recovery that builds the database of queues: when it does, and which rules its differences follow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from store.structures.commitlog.end import LogEnd
from store.verbs.recover import database
from store.verbs.recover.recover import RecoveryReport
from store.verbs.recover.rules import RecoveryRules


@pytest.mark.parametrize(
    ("mode", "queue_end", "faults", "keeps_index"),
    [
        ("normal", 100, [], None),
        ("normal", 99, [], False),
        ("normal", 101, [], False),
        ("normal", 100, ["it does not open"], False),
        ("abnormal", 100, [], True),
        ("abnormal", 99, [], True),
    ],
)
def test_a_database_that_reaches_the_logs_end_is_left_after_a_clean_shutdown_alone(
    mode: str, queue_end: int, faults: list[str], keeps_index: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index is kept after a crash alone."""
    foretold = RecoveryReport(mode, "", LogEnd(0, 100), queue_end_before=queue_end, findings=faults)
    opened: Any = SimpleNamespace(overlay=SimpleNamespace(folder="overlay"))
    steps: list[object] = []
    for name, answer in {
        "foretell_on_database": lambda *given, **options: foretold,
        "_build": lambda opened: SimpleNamespace(log_end=100, record_count=7),
        "open_rebuilt": lambda opened, folder: steps.append(folder),
        "applying": lambda opened, end, queue_end, rules: steps.append((end.record_count, queue_end, rules)),
    }.items():
        monkeypatch.setattr(database, name, answer)
    found = database.recover_database(opened, mode)
    is_rebuilt = keeps_index is not None
    applied = ["overlay", (7, queue_end, RecoveryRules(keep_index=bool(keeps_index)))]
    assert (found.is_rebuilt, steps) == (is_rebuilt, applied if is_rebuilt else [])
    assert (found.remarks, found.findings, found.dispatched_count) == (faults, [], 7 * is_rebuilt)
