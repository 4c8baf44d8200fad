"""What another version makes of the folder with the database."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.broker_line import LINE_5_3, LINE_5_5, BrokerLine
from store.structures.queuedb import upgrade


@pytest.mark.parametrize(
    ("folder", "own", "other", "names"),
    [
        ("consumequeue", LINE_5_3, LINE_5_5, ["queue-database-stays"]),
        ("consumequeue", LINE_5_3, LINE_5_3, []),
        ("consumequeue", LINE_5_5, LINE_5_5, []),
        ("consumequeue", LINE_5_5, LINE_5_3, []),
        ("consumequeue_r", LINE_5_5, LINE_5_3, ["queue-database-left"]),
        ("consumequeue_r", LINE_5_5, LINE_5_5, []),
        ("consumequeue_r", LINE_5_3, LINE_5_3, ["queue-database-left"]),
        ("consumequeue_r", LINE_5_3, LINE_5_5, []),
    ],
)
def test_a_version_that_looks_into_another_folder_is_told(
    folder: str, own: BrokerLine, other: BrokerLine, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = SimpleNamespace(consumequeue=Path("consumequeue"), consumequeue_rocksdb=Path("consumequeue_r"))
    monkeypatch.setattr(upgrade, "queue_database", lambda layout, fs: Path(folder))
    given = [cast(Any, SimpleNamespace(layout=layout, fs=None, line=line)) for line in (own, other)]
    assert [trap.code for trap in upgrade.notes(*given)] == names
