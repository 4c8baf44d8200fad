"""The tables of a store as Arrow batches, for a library's user."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

from store import export_arrow
from store.errors import BadRequest, NotAStore
from store.query.tables.schema import TABLES, arrow_schema
from tests.support.golden import golden

NORMAL = golden("normal").store


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_its_columns_and_types(table: str) -> None:
    assert export_arrow(NORMAL, table).schema == arrow_schema(TABLES[table])


def test_only_the_columns_and_rows_asked_for_are_read() -> None:
    wanted = (pc.field("topic") == "TopicA") & (pc.field("log_offset") < 65536)
    found = export_arrow(NORMAL, columns=["queue_id", "topic"], filter=wanted).read_all()
    everything = export_arrow(NORMAL).read_all().filter(wanted)
    assert found.schema.names == ["queue_id", "topic"]
    assert found.equals(everything.select(["queue_id", "topic"]))


def test_several_stores_are_told_apart() -> None:
    found = export_arrow([NORMAL, golden("batch").store], columns=["store"]).read_all()
    assert found.group_by("store").aggregate([("store", "count")]).column("store_count").to_pylist() == [500, 496]


def test_what_is_unknown_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="no table is called 'queues'"):
        export_arrow(NORMAL, "queues")
    with pytest.raises(BadRequest, match="messages has no column colour"):
        export_arrow(NORMAL, columns=["colour"])
    with pytest.raises(BadRequest, match="messages has no column colour, shade"):
        export_arrow(NORMAL, columns=["shade", "colour"])
    with pytest.raises(BadRequest, match=r"^columns is empty$"):
        export_arrow(NORMAL, columns=[])
    with pytest.raises(NotAStore):
        export_arrow(tmp_path)
