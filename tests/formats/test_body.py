"""Compressed bodies: what producers write is read back, what is broken stays as stored, and output is bounded."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import BadRequest
from store.formats.body import BodyState, compression_of, decode_body, encode_body

FLAGS = {"zlib": 0x001, "lz4": 0x101, "zstd": 0x201}


@given(st.binary(max_size=5000), st.sampled_from(sorted(FLAGS)))
def test_a_compressed_body_is_read_back(body: bytes, compression: str) -> None:
    found = decode_body(encode_body(body, compression), FLAGS[compression])
    assert found == (body, compression, BodyState.DECOMPRESSED, "")
    assert encode_body(body, "zlib") == zlib.compress(body, 5)


def test_bytes_of_the_java_client_are_read() -> None:
    # net.jpountz.lz4.LZ4FrameOutputStream: 4 MiB independent blocks, no checksums; the block is stored as it is.
    lz4 = bytes.fromhex("04224d18607073") + (0x80000005).to_bytes(4, "little") + b"hello" + bytes(4)
    assert decode_body(lz4, 0x101).data == b"hello"
    assert decode_body(zlib.compress(b"hello", 9), 0x301).data == b"hello"


@pytest.mark.parametrize(("flag", "name"), [(0, None), (0x700, None), (1, "zlib"), (0x301, "zlib"), (0x401, "type 4")])
def test_the_sys_flag_names_the_compression(flag: int, name: str | None) -> None:
    assert compression_of(flag) == name


@pytest.mark.parametrize("compression", sorted(FLAGS))
@pytest.mark.parametrize("cut", [1, 10, -1])
def test_a_body_that_stops_early_stays_as_stored_with_the_problem(compression: str, cut: int) -> None:
    stored = encode_body(b"some text " * 1000, compression)[:cut]
    found = decode_body(stored, FLAGS[compression])
    assert (found.data, found.state) == (stored, BodyState.STORED)
    assert compression in found.problem


@pytest.mark.parametrize("compression", sorted(FLAGS))
def test_a_bomb_is_not_unpacked_beyond_the_bound(compression: str) -> None:
    bomb = encode_body(bytes(50_000_000), compression)
    found = decode_body(bomb, FLAGS[compression], max_size=100_000)
    assert (found.data, found.problem) == (bomb, f"the {compression} body is larger than 100000 bytes")


def test_a_body_has_64_mib_at_most() -> None:
    bomb = zlib.compress(bytes((64 << 20) + 1), 1)
    assert decode_body(bomb, FLAGS["zlib"]).problem == "the zlib body is larger than 67108864 bytes"


@pytest.mark.parametrize("compression", sorted(FLAGS))
@pytest.mark.parametrize(("max_size", "is_whole"), [(999, False), (1000, True), (1001, True)])
def test_a_body_may_be_as_large_as_the_bound(compression: str, max_size: int, is_whole: bool) -> None:
    stored = encode_body(bytes(1000), compression)
    found = decode_body(stored, FLAGS[compression], max_size=max_size)
    assert found.data == (bytes(1000) if is_whole else stored)


@pytest.mark.parametrize(
    ("max_size", "problem"),
    [
        (999, "the zlib body is larger than 999 bytes"),
        (1000, "the zlib stream stops early, after 1000 bytes"),
        (1001, "the zlib stream stops early, after 1000 bytes"),
    ],
)
def test_a_zlib_body_without_its_checksum_stops_early(max_size: int, problem: str) -> None:
    stored = zlib.compress(bytes(1000))[:-1]
    assert decode_body(stored, FLAGS["zlib"], max_size=max_size) == (stored, "zlib", BodyState.STORED, problem)


def test_an_undefined_compression_is_said_or_refused() -> None:
    assert decode_body(b"x", 0x501) == (b"x", "type 5", BodyState.STORED, "compression type 5 is not defined")
    with pytest.raises(BadRequest):
        encode_body(b"x", "gzip")
