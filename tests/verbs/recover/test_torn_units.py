"""A queue unit of which a power cut wrote one part is rewritten by its record; every other unit stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from store import open_store
from store.formats.queue_unit import UNIT_SIZE, QueueUnit, decode_unit
from store.structures.findings import LOST_INDEX, MISSING_INDEX_ENTRY
from store.verbs.check.check import check
from store.verbs.recover.differences import Difference
from tests.support.stores import SMALL, make_store, recover, stored_messages

COUNT, TORN_AT = 17, 7


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A store of one queue that was not shut down; its checkpoint covers nothing, so that the whole log is walked."""
    root = make_store(tmp_path / "store", COUNT, queues=1)
    (root / "abort").touch()
    (root / "checkpoint").unlink()
    return root


def queue_file(root: Path) -> Path:
    return min((root / "consumequeue" / "T" / "0").iterdir())


def unit_at(root: Path, queue_offset: int) -> QueueUnit:
    return decode_unit(queue_file(root).read_bytes(), queue_offset * UNIT_SIZE)


def write_unit(root: Path, queue_offset: int, unit: QueueUnit) -> None:
    with queue_file(root).open("r+b") as file:
        file.seek(queue_offset * UNIT_SIZE)
        file.write(unit.encode())


def recovered(root: Path, *, as_broker: bool = False) -> set[str]:
    """Recovers, and gives the names of the differences from a broker."""
    change, _ = recover(root, as_broker=as_broker, settings=SMALL)
    return {row.difference for row in change.report.differs_from_broker}


TORN: dict[str, Callable[[QueueUnit], QueueUnit]] = {
    "without its tags code": lambda unit: unit._replace(tags_code=0),
    "with half of its tags code": lambda unit: unit._replace(tags_code=unit.tags_code & 0xFFFF),
    "with another size": lambda unit: unit._replace(size=unit.size + 1),
    "with a size beyond the log": lambda unit: unit._replace(size=0x7FFFFFFF),
    "without its log offset": lambda unit: unit._replace(log_offset=0),
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("torn", TORN.values(), ids=TORN.keys())
@pytest.mark.parametrize("queue_offset", [TORN_AT, COUNT - 1], ids=["in the middle", "at the end"])
def test_recover_rewrites_a_torn_unit_and_says_so(
    torn: Callable[[QueueUnit], QueueUnit], queue_offset: int, crashed: Path
) -> None:
    before = unit_at(crashed, queue_offset)
    write_unit(crashed, queue_offset, torn(before))
    assert Difference.TORN_UNITS in recovered(crashed)
    assert unit_at(crashed, queue_offset) == before
    assert not {finding.kind for finding in check(crashed)} - {LOST_INDEX, MISSING_INDEX_ENTRY}
    with open_store(crashed, settings=SMALL) as store:
        assert len(stored_messages(store)["T", 0]) == COUNT


def test_as_broker_keeps_a_torn_unit(crashed: Path) -> None:
    torn = unit_at(crashed, TORN_AT)._replace(tags_code=0)
    write_unit(crashed, TORN_AT, torn)
    assert Difference.TORN_UNITS not in recovered(crashed, as_broker=True)
    assert unit_at(crashed, TORN_AT) == torn


def test_a_unit_of_another_record_is_no_torn_one(crashed: Path) -> None:
    other = unit_at(crashed, TORN_AT + 1)
    write_unit(crashed, TORN_AT, other)
    assert Difference.TORN_UNITS not in recovered(crashed)
    assert unit_at(crashed, TORN_AT) == other


def test_a_sound_store_has_no_torn_units(crashed: Path) -> None:
    assert Difference.TORN_UNITS not in recovered(crashed)
