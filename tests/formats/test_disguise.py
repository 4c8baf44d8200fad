"""Texts in place of others have their length and hash code, and nothing else of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats.disguise import disguise, fill, hide_values
from store.formats.java import string_hash

TEXTS = (
    "order-4711",
    "+49 170 1234567",
    "TagABCDEFG",
    "naïve café 12",
    "中文 order 12345678",
    "x😀yz😀1234567",
    "abcdefgh",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_disguised_text_has_length_and_hash_code_of_the_text_and_few_of_its_characters(text: str) -> None:
    found = disguise(text, b"salt")
    assert (string_hash(found), len(found.encode())) == (string_hash(text), len(text.encode()))
    assert found != text
    same = [one for one, other in zip(text, found, strict=True) if one == other and ord(one) < 0x10000]
    assert len(same) <= 2


DISGUISED = [
    ("order-4711", "rKKaBuilmj", "rK5USoiB5u"),
    ("+49 170 1234567", "nRgAT9ZFjia2lrs", "nRgAT9ZWJr2lBIA"),
    ("TagABCDEFG", "aRUdvdsaTb", "aRkynONx6E"),
    ("naïve café 12", "6dĶeIWlhxĢzrt", "6dĶeIR1T3Ĝ5X9"),
    ("中文 order 12345678", "丰世uRQxQhkMtgsryum", "丰世uRQxQhkKS4s0odi"),
    ("x😀yz😀1234567", "h😀6f😀jkftyhq", "h😀6f😀HMQ9QXT"),
    ("abcdefgh", "NepsiABt", "V9WAjdPp"),
    ("AaBB", "BBAa", "j6b0"),
    # The last of the tried texts, and one past it, have the fewest equal characters.
    ("tag1148", "tbFmmpv", "x1pyH8L"),
    ("tag1213", "taemnmq", "0svHeA7"),
]


@pytest.mark.parametrize(("text", "disguised", "filled"), DISGUISED)
def test_a_salt_gives_the_same_texts_in_every_version(text: str, disguised: str, filled: str) -> None:
    assert (disguise(text, b"salt"), fill(text, b"salt")) == (disguised, filled)


@given(st.text(max_size=24))
def test_any_text_keeps_length_and_hash_code(text: str) -> None:
    found = disguise(text, b"salt")
    assert (string_hash(found), len(found.encode())) == (string_hash(text), len(text.encode()))


@pytest.mark.parametrize("text", ["", "A", "é", "😀", "000𐀀𐀀𐀀"])
def test_a_text_that_shares_its_hash_code_with_no_other_stays(text: str) -> None:
    assert disguise(text, b"salt") == text


def test_equal_texts_stay_equal_and_another_salt_gives_others() -> None:
    assert disguise("order-4711", b"a") == disguise("order-4711", b"a") != disguise("order-4711", b"b")


def test_each_key_is_disguised_by_itself_and_a_broker_s_properties_stay() -> None:
    data = b"KEYS\1order-4711 order-4712\2UNIQ_KEY\1AC1100\2phone\1+49 170\2DELAY\x013\2broken\2TAGS\1TagABCDEFG\2"
    found = hide_values(data, b"salt")
    first, second = (disguise(key, b"salt").encode() for key in ("order-4711", "order-4712"))
    tag, phone = disguise("TagABCDEFG", b"salt").encode(), found.split(b"\2")[2].removeprefix(b"phone\1")
    assert found == b"\2".join(
        (
            b"KEYS\1" + first + b" " + second,
            b"UNIQ_KEY\1AC1100",
            b"phone\1" + phone,
            b"DELAY\x013",
            b"broken",
            b"TAGS\1" + tag,
            b"",
        )
    )
    assert (len(phone), phone.isalnum(), len(found)) == (7, True, len(data))


def test_a_value_that_is_no_text_is_question_marks() -> None:
    assert hide_values(b"a\1\xff\xfe\2KEYS\1\xff", b"salt") == b"a\1??\2KEYS\1?"


def test_a_surrogate_of_its_own_stays() -> None:
    text = "\ud800\ud7ff\udfff\ue000"
    assert [at for at, one in enumerate(fill(text, b"salt")) if one == text[at]] == [0, 2]


@pytest.mark.parametrize("one", ["\0", "\x7f", "\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff"])
def test_a_character_is_replaced_by_one_of_as_many_bytes(one: str) -> None:
    found = fill(one * 20, b"salt")
    assert [len(other.encode()) for other in found] == [len(one.encode())] * 20
    assert one not in found
