"""What a version before 5.4 does not read of tables in one database."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store.broker_line import LINE_5_3, LINE_5_5, BrokerLine
from store.structures.tables import upgrade
from store.structures.trap import Trap


@pytest.mark.parametrize(
    ("own", "other", "is_told"),
    [(LINE_5_5, LINE_5_3, True), (LINE_5_5, LINE_5_5, False), (LINE_5_3, LINE_5_3, False), (LINE_5_3, LINE_5_5, False)],
)
def test_tables_of_the_database_with_entries_are_noted(
    own: BrokerLine, other: BrokerLine, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics are in the database, offsets in a file, and the third table is empty."""
    topics, offsets, empty = list(upgrade.TABLES)[:3]
    tables: dict[str, tuple[str, dict[str, Any] | None]] = {
        topics: ("config/metadata", {upgrade.TABLES[topics].member: {"a": {}, "b": {}}}),
        offsets: (f"config/{offsets}", {upgrade.TABLES[offsets].member: {"a": {}}}),
        empty: ("config/metadata", {upgrade.TABLES[empty].member: {}}),
    }

    def read(folder: Path, name: str, fs: object) -> Any:
        path, document = tables.get(name, ("config/metadata", None))
        return SimpleNamespace(main=SimpleNamespace(path=Path(path), document=document))

    monkeypatch.setattr(upgrade, "read_config_file", read)
    opened = [
        cast(Any, SimpleNamespace(line=line, layout=SimpleNamespace(config=None), fs=None)) for line in (own, other)
    ]
    detail = f"config/metadata is not read, and has 2 entries of {topics}, which is older or missing"
    assert list(upgrade.notes(*opened)) == ([Trap("tables-in-one-database", detail, (topics, 2))] if is_told else [])
