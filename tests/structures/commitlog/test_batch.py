"""A batch is taken and stored as MessageExtEncoder does; its limits were tried on the real 4.9.8 and 5.3.3."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import Message, PutStatus, open_store
from tests.support.stores import SMALL

SENT_EXTRA = 22
"""What a producer sends of a message beside its body and properties."""
PROPERTIES = b"KEYS\x01k"


@pytest.mark.turns(3)
@pytest.mark.parametrize("compat", ["4.9", "5.3"])
@pytest.mark.parametrize(
    ("over", "status"), [(-1, PutStatus.PUT_OK), (0, PutStatus.PUT_OK), (1, PutStatus.MESSAGE_ILLEGAL)]
)
@pytest.mark.parametrize("count", [1, 3])
def test_a_batch_is_as_large_as_maxMessageSize_as_it_is_sent(
    over: int, status: PutStatus, count: int, compat: str, tmp_path: Path
) -> None:
    room = 2000 - count * (SENT_EXTRA + len(PROPERTIES)) - 10 * (count - 1)
    bodies = [b"x" * 10] * (count - 1) + [b"x" * (room + over)]
    batch = [Message("T", body, 0, PROPERTIES) for body in bodies]
    with open_store(tmp_path / "s", settings=SMALL | {"maxMessageSize": 2000}, read_only=False, compat=compat) as store:
        result = store.put_batch(batch)
        store.catch_up()
        found = store.get("T", 0, 0)
    stored = count if over <= 0 else 0
    assert (result.status, len(found.messages)) == (status, stored)
    assert result.reason == ("the batch is sent as 2001 bytes, maxMessageSize is 2000" if over > 0 else "")


def test_a_batch_has_no_prepared_transaction_offset(tmp_path: Path) -> None:
    one = Message("T", b"x", 0, prepared_transaction_offset=77)
    with open_store(tmp_path / "s", settings=SMALL, read_only=False) as store:
        store.put_batch([one, one])
        store.put(one)
        store.catch_up()
        found = store.get("T", 0, 0)
    assert [message.prepared_transaction_offset for message in found.messages] == [0, 0, 77]
