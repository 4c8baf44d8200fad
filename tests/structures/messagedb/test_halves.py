"""Half messages in the message database: their states, and what a start makes of a lost or broken database."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store import open_store, simulate
from store.engine.services import TransactionState, review_transactions
from store.formats.properties import decode_properties
from store.formats.topics import ROCKSDB_OP_TOPIC
from store.structures.messagedb import halves
from store.structures.messagedb.expect import TRANS_OFFSET
from store.structures.messagedb.keys import TRANS, HalfEntry
from tests.support.five_stores import fivefive
from tests.support.golden import copy_store

pytest.importorskip("rocksdict")
AS_LEFT = {"committed": 3, "rolled-back": 2, "in-doubt": 5, "discarded": 1}
FORGOTTEN = (
    "rocksdbstore has no entries: a start forgets 6 open half messages, and checks none of them with its producer"
)
UNABLE = (
    "rocksdbstore does not open: a broker starts all the same, finds nothing by its index, fires no timer, and "
    "dispatches nothing after the next half message"
)
REFUSED = "NullPointerException: rocksdbstore does not open, and half messages are to be put into it"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copy_store(fivefive("trans") / "store", tmp_path / "store")


def states_of(root: Path) -> dict[str, int]:
    with open_store(root) as store:
        return dict(Counter(one.state.value for one in review_transactions(store).transactions))


def test_each_half_message_is_in_the_state_that_the_broker_left(root: Path) -> None:
    with open_store(root) as store:
        found = review_transactions(store).transactions
    assert [(one.halves[0].log_offset, one.halves[0].check_times) for one in found if one.state == "in-doubt"] == [
        (1510, 0),
        (2114, 1),
        (2416, 1),
        (2718, 1),
        (5020, 0),
    ]
    assert [one.halves[0].log_offset for one in found if one.state is TransactionState.DISCARDED] == [1812]
    committed = {one.halves[0].log_offset: one.committed_log_offset for one in found if one.committed_log_offset >= 0}
    assert committed == {0: 3020, 302: 3487, 604: 3956}
    assert states_of(root) == AS_LEFT


def test_without_the_database_a_half_message_that_was_given_up_is_open_again(root: Path) -> None:
    for name in ("rocksdbstore", "consumequeue"):
        shutil.rmtree(root / name)
        assert states_of(root) == {"committed": 3, "rolled-back": 2, "in-doubt": 6}


# What 5.5.0 did: damaged.jsonl of the store. After a crash all six came back.
@pytest.mark.parametrize(
    ("lost", "is_killed", "outcome"),
    [
        pytest.param(None, False, (True, "", []), id="whole"),
        pytest.param("rocksdbstore", False, (True, "", [("half-messages-forgotten", FORGOTTEN)]), id="lost"),
        pytest.param("rocksdbstore", True, (True, "", []), id="lost in a crash"),
        pytest.param("MANIFEST-*", False, (True, "", [("message-database-broken", UNABLE)]), id="broken"),
        pytest.param("MANIFEST-*", True, (False, REFUSED, []), id="broken in a crash"),
    ],
)
def test_a_start_with_a_lost_or_broken_database_is_foretold(
    lost: str | None, is_killed: bool, outcome: object, root: Path
) -> None:
    for path in [*root.glob(f"rocksdbstore/{lost}"), *root.glob(f"{lost}")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if is_killed:
        (root / "abort").touch()
    found = simulate(root, compat="5.5")
    assert (found.starts, found.reason, [(trap.code, trap.detail) for trap in found.traps]) == outcome


@pytest.mark.parametrize(("end", "has"), [(None, False), (0, False), (1, True)])
def test_a_queue_with_an_entry_has_half_messages(end: int | None, has: bool) -> None:
    queue = None if end is None else SimpleNamespace(max_offset=end)
    opened = SimpleNamespace(
        config=SimpleNamespace(queues_in_database=False), queues=SimpleNamespace(find=lambda topic, queue_id: queue)
    )
    assert halves.has_half_messages(cast(Any, opened)) is has


def test_without_entries_no_half_message_was_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = cast(Any, SimpleNamespace(layout=SimpleNamespace(root=Path("s")), fs=None))
    monkeypatch.setattr(halves, "may_hold_entries", lambda layout, fs: False)
    assert halves._read_entries(opened) == ({}, -1)
    empty = SimpleNamespace(halves=lambda: [b"key", HalfEntry(5, "T", "U", 2, 100)], longs={TRANS: {}})
    monkeypatch.setattr(halves, "may_hold_entries", lambda layout, fs: True)
    monkeypatch.setattr(halves, "open_database", lambda folder, scratch, fs: empty)
    assert halves._read_entries(opened) == ({5: 2}, -1)


def test_the_end_of_a_half_message_has_its_properties_in_the_order_of_a_broker() -> None:
    with open_store(fivefive("trans") / "store") as store:
        ends = list(store.messages(ROCKSDB_OP_TOPIC, 0))
        assert len(ends) == 5
        for end in ends:
            half = store.lookup(int(end.properties[TRANS_OFFSET]))
            assert half is not None
            made = halves.op_message(half, end.born_timestamp_ms)
            assert [*decode_properties(made.properties)] == [*end.properties]
