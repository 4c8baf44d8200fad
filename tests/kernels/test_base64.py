"""Base64 against the library's, for every size, every byte and every place."""

from __future__ import annotations

import base64

import pytest

from store.kernels.base64 import decode_base64, encode_base64

BYTES = bytes(i * 167 % 256 for i in range(256))


def decoded(text: bytes) -> bytes | None:
    """The bytes that a text between others is decoded to, None for another text."""
    target = bytearray(b"\x55" * (len(text) + 8))
    end = decode_base64(b"++" + text + b"==", 2, 2 + len(text), target, 3)
    assert target[:3] == b"\x55" * 3
    if end < 0:
        return None
    assert target[end:] == b"\x55" * (len(target) - end), "bytes behind the end are not written"
    return bytes(target[3:end])


def encoded(data: bytes) -> bytes:
    target = bytearray(b"\x55" * (2 * len(data) + 8))
    end = encode_base64(b"\xff" + data + b"\xff\xff", 1, 1 + len(data), target, 3)
    assert (target[:3], target[end:]) == (b"\x55" * 3, b"\x55" * (len(target) - end))
    return bytes(target[3:end])


@pytest.mark.parametrize("size", [*range(10), 254, 255, 256])
def test_bytes_of_every_size_are_encoded_and_decoded(size: int) -> None:
    for data in (BYTES[:size], bytes(size), b"\xff" * size):
        text = base64.b64encode(data)
        assert (encoded(data), decoded(text)) == (text, data)


@pytest.mark.parametrize("text", [b"QUJD", b"QUI=", b"QQ==", b"QUJDQUJD", b"QUJDQUI=", b"QUJDQQ=="])
def test_a_byte_at_any_place_is_a_character_or_no_base64(text: bytes) -> None:
    for at in range(len(text)):
        for byte in range(256):
            changed = text[:at] + bytes([byte]) + text[at + 1 :]
            try:
                exact = base64.b64decode(changed, validate=True)
            except ValueError:
                exact = None
            # The library ignores unused bits, and text behind a padding.
            is_exact = exact is not None and base64.b64encode(exact) == changed
            assert decoded(changed) == (exact if is_exact else None), changed


@pytest.mark.parametrize("text", [b"Q", b"QU", b"QUJ", b"QUJDQ", b"====", b"Q===", b"A=A=", b"=AAA"])
def test_a_text_of_another_size_or_with_a_padding_elsewhere_is_none(text: bytes) -> None:
    assert decoded(text) is None
