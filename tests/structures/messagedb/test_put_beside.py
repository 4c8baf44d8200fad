"""Puts and ends of transactions beside a message database: the next start enters what is put."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import Message, check, open_store, plan_resolve, simulate
from store.engine.services import review_transactions
from store.errors import UnsupportedFormat
from store.files.filesystem import Filesystem
from store.layout import StoreLayout, segment_name
from store.structures.messagedb.guard import refuse
from store.structures.messagedb.keys import INDEX, LAST_OFFSET, TRANS, HalfEntry, encode_long
from tests.support.five_stores import change_database, fivefive
from tests.support.golden import copy_store

pytest.importorskip("rocksdict")
SEGMENT_BYTES = 65536
OP_RECORD = 3192
"""Log offset of the op record of the first half message, in the golden store."""


def copy_of(name: str, tmp_path: Path) -> Path:
    return copy_store(fivefive(name) / "store", tmp_path / "store")


@pytest.mark.parametrize(("name", "entered_from"), [("index", 5074), ("trans", 5021)])
def test_the_next_start_enters_what_is_put(name: str, entered_from: int, tmp_path: Path) -> None:
    root = copy_of(name, tmp_path)
    with open_store(root, read_only=False) as store:
        result = store.put(Message.of("TopicA", "hello", keys=["k"], tags="t", uniq_key="U" * 32))
    found = simulate(root, compat="5.5")
    assert (result.is_ok, list(check(root)), found.entered_from, found.traps) == (True, [], entered_from, [])


@pytest.mark.parametrize(("segments", "is_refused"), [(1, False), (9, False), (10, True)])
def test_a_put_is_refused_where_a_start_would_not_go_back_so_far(
    segments: int, is_refused: bool, tmp_path: Path
) -> None:
    root = copy_of("index", tmp_path)
    for number in range(1, segments):
        (root / "commitlog" / segment_name(number * SEGMENT_BYTES)).touch()
    layout = StoreLayout(root)
    if not is_refused:
        refuse(layout, Filesystem())
        return
    with pytest.raises(UnsupportedFormat) as caught:
        refuse(layout, Filesystem())
    assert caught.value.code == "message-database-behind"
    assert caught.value.reason == (
        "the index, timers and half messages in a RocksDB (5.4 and later) end at log offset 5073, more than 9 segments "
        "before the log's: a start would never enter what is between"
    )


@pytest.mark.parametrize(("index", "halves"), [(5073, 70_000), (70_000, 5073)])
def test_the_one_that_is_further_behind_counts(index: int, halves: int, tmp_path: Path) -> None:
    root = copy_of("index", tmp_path)
    for number in range(1, 10):
        (root / "commitlog" / segment_name(number * SEGMENT_BYTES)).touch()
    ends = {family: {LAST_OFFSET: encode_long(end)} for family, end in ((INDEX, index), (TRANS, halves))}
    change_database(root, ends)
    with pytest.raises(UnsupportedFormat, match="end at log offset 5073,"):
        refuse(StoreLayout(root), Filesystem())


# 5.5.0 took these two out of its database at its next start, and left the other three open.
@pytest.mark.turns(3)
@pytest.mark.parametrize(("how", "appended"), [("commit", ["TopicB", "op"]), ("rollback", ["op"])])
def test_a_half_message_in_the_database_is_ended(how: str, appended: list[str], tmp_path: Path) -> None:
    root = copy_of("trans", tmp_path)
    with plan_resolve(root, "7F0000010012345600000000ABCD0005", commit=how == "commit") as change:
        change.apply()
    names = {"RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC": "op"}
    assert [names.get(one.topic, one.topic) for one in change.report.appended] == appended
    with open_store(root) as store:
        review = review_transactions(store)
        op = store.opened.log.lookup(change.report.appended[-1].log_offset)
    states = {one.halves[0].log_offset: (one.state.value, one.warnings) for one in review.transactions}
    assert op is not None
    assert (op.queue_id, op.body, op.tags) == (0, b"\0", "d")
    assert {name: op.properties[name] for name in ("TRANS_OFFSET", "REAL_TOPIC", "__transactionId__", "WAIT")} == {
        "TRANS_OFFSET": "1510",
        "REAL_TOPIC": "TopicB",
        "__transactionId__": "7F0000010012345600000000ABCD0005",
        "WAIT": "false",
    }
    assert len(op.uniq_key or "") == 32
    assert states[1510] == ({"commit": "committed", "rollback": "rolled-back"}[how], [])
    assert list(check(root)) == []


@pytest.mark.parametrize(("past", "findings"), [(-1, []), (0, [0]), (1, [0])])
def test_an_entry_is_nowhere_unless_the_op_record_is_past_what_was_entered(
    past: int, findings: list[int], tmp_path: Path
) -> None:
    root = copy_of("trans", tmp_path)
    key, value = HalfEntry(0, "TopicA", "7F0000010012345600000000ABCD0000", 0, 302).encode()
    change_database(root, {TRANS: {key: value, LAST_OFFSET: encode_long(OP_RECORD + past)}})
    assert [one.offset for one in check(root)] == findings


def test_the_entry_of_a_half_that_was_ended_before_the_newest_is_nowhere(tmp_path: Path) -> None:
    """A start hands over no op record before the newest half message entered."""
    root = copy_of("trans", tmp_path)
    key, value = HalfEntry(0, "TopicA", "7F0000010012345600000000ABCD0000", 0, 302).encode()
    change_database(root, {TRANS: {key: value}})
    assert [(one.kind, one.offset) for one in check(root)] == [("message-entry-nowhere", 0)]
