"""An entry's values, rows of a block, and the files of the queues that are asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from store.files.store_reader import StoreReader
from store.formats.fields import Field
from store.structures.entry import Asked, Entry, EntryBlock, files_at


def test_values_are_those_of_fields_with_bytes_as_hex_and_the_extra_ones() -> None:
    fields = [Field("a", 0, 1, 5), Field("b", 1, 2, b"\1\xff"), Field("c", 3, 1, "t")]
    found = Entry("unit", "p", 7, 0, fields=fields, extra={"d": None, "a": 6})
    assert found.values() == {"a": 6, "b": "01ff", "c": "t", "d": None}


def test_a_block_keeps_the_values_of_all_entries_and_selects_those_of_each() -> None:
    block = EntryBlock(np.array([5, 6, 7]), {"topic": "T", "size": np.array([50, 60, 70])})
    assert len(block) == 3
    for rows, numbers in ((np.array([True, False, True]), [5, 7]), (slice(1, None), [6, 7])):
        part = block.select(rows)
        sizes = part.columns["size"]
        assert isinstance(sizes, np.ndarray)
        assert (part.numbers.tolist(), part.columns["topic"], sizes.tolist()) == (
            numbers, "T", [10 * number for number in numbers]
        )  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "queue_id", "paths"),
    [
        (None, None, ["T/0/00000000000000000000", "T/0/00000000000000000020", "T/1/00000000000000000000",
                      "U/0/00000000000000000000"]),
        ("T", None, ["T/0/00000000000000000000", "T/0/00000000000000000020", "T/1/00000000000000000000"]),
        ("T", 1, ["T/1/00000000000000000000"]),
        (None, 0, ["T/0/00000000000000000000", "T/0/00000000000000000020", "U/0/00000000000000000000"]),
        ("U", 1, []),
    ],
)  # fmt: skip
def test_files_are_those_of_the_chosen_queues(
    topic: str | None, queue_id: int | None, paths: list[str], tmp_path: Path
) -> None:
    for name in ("T/0/00000000000000000020", "T/0/00000000000000000000", "T/1/00000000000000000000",
                 "U/0/00000000000000000000"):  # fmt: skip
        path = tmp_path / "consumequeue" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(20))
    reader = StoreReader(str(tmp_path))
    found = Asked(topic=topic, queue_id=queue_id).queue_files(reader, "consumequeue")
    assert [one.path for one in found] == [f"consumequeue/{path}" for path in paths]
    assert [one.path for one in files_at(reader, "abort", "consumequeue/T/1/00000000000000000000")] == [
        "consumequeue/T/1/00000000000000000000"
    ]
