"""What is told of the tables' columns."""

from __future__ import annotations

import re

import pytest

from store.query.tables import schema


@pytest.mark.parametrize("table", schema.TABLES)
def test_every_column_of_a_table_is_described(table: str) -> None:
    found = re.search(rf"^{table}: .*\n((?:    .*\n)+)", schema.__doc__ or "", re.MULTILINE)
    assert found
    lines = re.findall(r"^    (\w+(?:, \w+)*)  ", found.group(1), re.MULTILINE)
    assert [name for line in lines for name in line.split(", ")] == list(schema.TABLES[table])
