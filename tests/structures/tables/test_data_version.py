"""The version of a table: three numbers, and what a change makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.files.filesystem import Filesystem
from store.structures.tables.data_version import DataVersion, parse_data_version, read_data_version

WHOLE = {"counter": 5, "stateVersion": 6, "timestamp": 7}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (WHOLE, DataVersion(5, 6, 7)),
        ({**WHOLE, "counter": 0}, DataVersion(0, 6, 7)),
        ({**WHOLE, "counter": "5"}, None),
        ({**WHOLE, "timestamp": None}, None),
        ({"counter": 5, "stateVersion": 6}, None),
        ({}, None),
        (None, None),
        ([5, 6, 7], None),
    ],
)
def test_a_version_has_three_numbers(value: object, found: DataVersion | None) -> None:
    assert parse_data_version(value) == found  # type: ignore[arg-type]


def test_a_change_is_counted_and_has_its_time() -> None:
    version = DataVersion(5, 6, 7)
    version.move(99)
    assert version.to_json() == {"counter": 6, "stateVersion": 6, "timestamp": 99}
    assert list(version.to_json()) == ["counter", "stateVersion", "timestamp"]
    assert DataVersion() == DataVersion(0, 0, 0)


@pytest.mark.parametrize(
    ("text", "found"),
    [(None, None), ("{}", None), ('{"dataVersion":{"counter":1,"stateVersion":2,"timestamp":3}}', (1, 2, 3))],
)
def test_a_table_s_version_is_read_from_its_file(
    text: str | None, found: tuple[int, int, int] | None, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "t.json").write_text(text, encoding="utf-8")
    version = read_data_version(tmp_path, "t.json", Filesystem())
    assert version == (DataVersion(*found) if found is not None else None)
