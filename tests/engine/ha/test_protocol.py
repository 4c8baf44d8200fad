"""The bytes on a replication link: how large a frame may be."""

from __future__ import annotations

import struct
from contextlib import nullcontext

import pytest

from store.engine.ha.link import Address, MasterLink
from store.errors import ReplicationError
from tests.support.fake_master import FakeMaster, Script


@pytest.mark.parametrize(("size", "is_taken"), [(4194292, True), (4194293, False)])
def test_a_frame_fits_a_slaves_buffer(size: int, is_taken: bool) -> None:
    script: Script = lambda asked: iter([struct.pack(">qi", 1, size)])  # noqa: E731
    with FakeMaster(script) as master, MasterLink(Address.parse(master.address)) as link:
        link.report(1)
        with nullcontext() if is_taken else pytest.raises(ReplicationError, match=f"a frame of {size} bytes"):
            assert link.next_header(60) == (1, size)
