"""A host in a record: the raw address (4 or 16 bytes), then the port as an int.

Source: MessageExt.socketAddress2ByteBuffer (4.9.8).
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import NamedTuple

from store.errors import BadRequest
from store.formats.given import check_bytes, check_text

_TEXT = re.compile(r"\[?([0-9a-fA-F.:]+)\]?:(-?[0-9]+)")
IPV4_HOST_SIZE = 4 + 4
IPV6_HOST_SIZE = 16 + 4
MAX_PORT = 0xFFFF


class Host(NamedTuple):
    """An address of 4 or 16 bytes, and a port."""

    address: bytes
    port: int

    @classmethod
    def parse(cls, text: str) -> Host:
        """Parse `127.0.0.1:10911` or `[::1]:10911`."""
        return cls._parse(check_text("host", text))

    @classmethod
    @lru_cache(maxsize=4096)
    def _parse(cls, text: str) -> Host:
        found = _TEXT.fullmatch(text)
        try:
            # A record has no room for a zone such as %eth0, so the pattern has none.
            if found is not None:
                return cls(ipaddress.ip_address(found[1]).packed, int(found[2]))
        except ValueError:
            pass
        raise BadRequest(f"{text!r} is not a host; write 127.0.0.1:10911 or [::1]:10911")

    # The records of a log have the same few hosts.
    @classmethod
    @lru_cache(maxsize=4096)
    def decode(cls, data: bytes) -> Host:
        """Decode the 8 or 20 bytes of a record."""
        check_bytes("data", data)
        if len(data) not in (IPV4_HOST_SIZE, IPV6_HOST_SIZE):
            raise BadRequest(f"data is not a host of 8 or 20 bytes, but of {len(data)}")
        return cls(data[:-4], int.from_bytes(data[-4:], "big", signed=True))

    def encode(self) -> bytes:
        """Return the 8 or 20 bytes of a record."""
        return encode_host(self)

    @property
    def is_ipv6(self) -> bool:
        return len(self.address) == 16

    @lru_cache(maxsize=4096)  # noqa: B019
    def __str__(self) -> str:
        address = ipaddress.ip_address(self.address)
        return f"[{address}]:{self.port}" if self.is_ipv6 else f"{address}:{self.port}"


@lru_cache(maxsize=4096)
def encode_host(host: Host) -> bytes:
    """Return the 8 or 20 bytes of a record.

    Cached, as the records of a broker have the same few hosts."""
    return host.address + host.port.to_bytes(4, "big", signed=True)


def port_fault(born_host: Host, store_host: Host) -> str:
    """Return why a Java client cannot decode a record with these hosts, empty if it can.

    InetSocketAddress refuses the port, and the client drops all messages of the pull (MessageDecoder.decode, 4.9.8).
    """
    # A loop takes twice as long, and each put comes here that put_message leaves.
    if 0 <= born_host.port <= MAX_PORT and 0 <= store_host.port <= MAX_PORT:
        return ""
    name, host = ("store_host", store_host) if 0 <= born_host.port <= MAX_PORT else ("born_host", born_host)
    return f"the port of {name} is not 0 to {MAX_PORT}: {host.port}"


LOCALHOST = Host(b"\x7f\x00\x00\x01", 10911)
