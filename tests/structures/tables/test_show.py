"""Lines for people about the tables: databases beside them, and ordered consumption."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.layout import StoreLayout
from store.structures.registry import Present
from store.structures.tables.show import describe

ORDER = "config/consumerOrderInfo.json"


@pytest.mark.parametrize(
    ("table", "detail"),
    [
        (None, None),
        ({}, None),
        ({"T@G": {"0": {"o": [5]}}}, "offsets that groups took of 1 queue"),
        ({"T@G": {"0": {"o": [5]}, "1": {"o": [5]}}, "T@H": {"0": {"o": []}}}, "offsets that groups took of 3 queues"),
    ],
)
@pytest.mark.parametrize("databases", [[], ["metadata"], ["metadata", "topics", "rdb"]])
def test_each_database_is_named_once_and_the_queues_of_ordered_consumption_are_counted(
    databases: list[str], table: dict[str, object] | None, detail: str | None, tmp_path: Path
) -> None:
    for name in databases:
        (tmp_path / "config" / name).mkdir(parents=True)
        (tmp_path / "config" / name / "CURRENT").touch()
    if table is not None:
        (tmp_path / "config").mkdir(exist_ok=True)
        (tmp_path / ORDER).write_text(json.dumps({"table": table}))
    stale = "the JSON files in config/ may be stale"
    assert list(describe(StoreLayout(tmp_path), Filesystem())) == [
        *(Present("RocksDB configuration", f"config/{name}", stale) for name in databases),
        *([Present("ordered consumption", ORDER, detail)] if detail else []),
    ]
