"""The bytes on a replication link: how large a frame may be."""

from __future__ import annotations

import struct
from contextlib import nullcontext

import pytest

from store.engine.ha import protocol
from store.engine.ha.link import Address, MasterLink
from store.engine.ha.protocol import FrameHeader
from store.errors import BadRequest, ReplicationError
from tests.support.fake_master import FakeMaster, Script


@pytest.mark.parametrize(("size", "is_taken"), [(4194292, True), (4194293, False)])
def test_a_frame_fits_a_slaves_buffer(size: int, is_taken: bool) -> None:
    script: Script = lambda asked: iter([struct.pack(">qi", 1, size)])  # noqa: E731
    with FakeMaster(script) as master, MasterLink(Address.parse(master.address)) as link:
        link.report(1)
        with nullcontext() if is_taken else pytest.raises(ReplicationError, match=f"a frame of {size} bytes"):
            assert link.next_header(60) == (1, size)


def test_the_numbers_are_the_brokers() -> None:
    assert (protocol.TRANSFER_BATCH_SIZE, protocol.MOST_FRAME_BYTES) == (32_768, 4_194_292)
    assert (protocol.HEARTBEAT_INTERVAL_S, protocol.HOUSEKEEPING_INTERVAL_S) == (5.0, 20.0)
    assert [FrameHeader(7, size).is_heartbeat for size in (0, 1)] == [True, False]


@pytest.mark.parametrize(("text", "address"), [("h:0", ("h", 0)), ("[::1]:65535", ("::1", 65_535)), ("h:65536", None)])
def test_a_port_has_16_bits(text: str, address: tuple[str, int] | None) -> None:
    if address is not None:
        assert (Address.parse(text), str(Address.parse(text))) == (address, text)
    else:
        with pytest.raises(BadRequest):
            Address.parse(text)
    with pytest.raises(BadRequest) as error:
        Address.parse("x" * 100)
    assert error.value.reason == f"an address is HOST:PORT, not {'x' * 80!r}"
