"""Message ids and unique keys: every part, and its order."""

from __future__ import annotations

import os
import time

import pytest

from store.errors import BadRequest
from store.formats import message_id
from store.formats.host import Host
from store.formats.message_id import create_unique_key, decode_message_id, encode_message_id


@pytest.mark.parametrize(
    ("host", "log_offset", "text"),
    [
        (Host(b"\x7f\0\0\1", 10911), 62967, "7F00000100002A9F000000000000F5F7"),
        (Host(b"\x7f\0\0\1", 10911), -1, "7F00000100002A9FFFFFFFFFFFFFFFFF"),
        (Host(bytes(15) + b"\1", 1), 0, "00" * 15 + "01" + "00000001" + "00" * 8),
    ],
)
def test_an_id_is_the_host_and_the_log_offset(host: Host, log_offset: int, text: str) -> None:
    assert encode_message_id(host, log_offset) == text
    assert decode_message_id(text) == decode_message_id(text.lower()) == (host, log_offset)


@pytest.mark.parametrize("size", [0, 15, 17, 27, 29])
def test_an_id_has_16_bytes_or_28(size: int) -> None:
    with pytest.raises(BadRequest, match="is not a message id"):
        decode_message_id("00" * size)


def test_a_unique_key_has_host_process_loader_time_of_the_month_and_a_counter() -> None:
    now = time.localtime()
    month_ms = int(time.mktime((now.tm_year, now.tm_mon, 1, 0, 0, 0, 0, 0, -1))) * 1000
    first, second = (bytes.fromhex(create_unique_key(month_ms + after)) for after in (0, 86_400_001))
    for key, after in ((first, 0), (second, 86_400_001)):
        assert (key[:4], key[4:6]) == (b"\x7f\0\0\1", (os.getpid() & 0xFFFF).to_bytes(2, "big"))
        assert (key[6:10], int.from_bytes(key[10:14], "big")) == (message_id._LOADER, after)
    assert (int.from_bytes(second[14:], "big") - int.from_bytes(first[14:], "big")) % (1 << 16) == 1
