"""Messages of pop consumers, found by the entries of their queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import Message, open_store
from store.files.store_reader import StoreReader
from store.formats.queue_unit import QueueUnit
from store.structures.state.check import revive_lines_of
from tests.support.stores import SMALL, Clock

pytestmark = pytest.mark.leaves_damage
TOPIC, SEGMENT = "rmq_sys_REVIVE_LOG_C", 4096


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Messages that fill one segment and begin the next."""
    settings = {**SMALL, "mappedFileSizeCommitLog": SEGMENT}
    with open_store(tmp_path / "store", settings=settings, read_only=False, clock=Clock()) as store:
        while store.max_log_offset <= SEGMENT:
            store.put(Message.of(TOPIC, "{}", tags="x"))
    return tmp_path / "store"


def found_in(root: Path) -> list[int]:
    reader = StoreReader(str(root))
    return [at for file in reader.queue_files(TOPIC, 0) for at, _ in revive_lines_of(reader, TOPIC, file)]


def test_the_first_message_of_each_segment_is_found_too(root: Path) -> None:
    with open_store(root) as store:
        places = [one.log_offset for one in store.messages(TOPIC, 0)]
    assert {0, SEGMENT} <= set(places)
    assert found_in(root) == list(range(len(places)))


@pytest.mark.parametrize(
    ("unit", "is_found"),
    [
        (QueueUnit(0, 0, 0), False),
        (QueueUnit(0, 1, 0), False),
        (QueueUnit(0, (1 << 31) - 1, 0), False),
        (QueueUnit(2 * SEGMENT, 100, 0), False),
        (None, True),
    ],
)
def test_an_entry_of_no_record_in_the_log_is_passed_over(unit: QueueUnit | None, is_found: bool, root: Path) -> None:
    whole = found_in(root)
    with (root / "consumequeue" / TOPIC / "0" / f"{0:020d}").open("r+b") as file:
        file.write(unit.encode() if unit is not None else b"")
    assert found_in(root) == (whole if is_found else whole[1:])
