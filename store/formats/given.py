"""Checks of values from outside, before their first use.

A wrong kind raises WrongKind, a wrong value of the right kind BadRequest. Both messages begin with the field's name.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import index
from pathlib import PurePath
from sys import float_info
from typing import TYPE_CHECKING

from store.errors import BadRequest, WrongKind, quoted, shown
from store.formats.java import INT_MAX
from store.formats.properties import DELAY, KEYS, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, TAGS, UNIQ_KEY

if TYPE_CHECKING:
    from store.formats.message import Message

_INTS = ("queue_id", "flag", "sys_flag", "reconsume_times")
_ARGUMENTS = {KEYS: "keys", TAGS: "tags", UNIQ_KEY: "uniq_key", DELAY: "delay_level"}
"""The arguments of a message that become properties."""
_ADDRESS_SIZES = (4, 16)
_ONE_VALUE = (str, bytes, bytearray, memoryview, Mapping)
"""These are one value where several are asked for, although they have items."""


def check_messages(messages: Sequence[Message]) -> None:
    """Raise as check_message for one of several messages; WrongKind without a sequence."""
    check_sequence("messages", messages)
    for message in messages:
        check_message(message)


def check_message(message: Message) -> None:
    """Raise WrongKind or BadRequest for a message that no record can hold."""
    # A comparison of types would need an import on each call: the module of Message imports this one.
    if not hasattr(message, "prepared_transaction_offset"):
        raise WrongKind(f"message is not a Message, but {type(message).__name__}")
    check_text("topic", message.topic)
    for name in _INTS:
        value = getattr(message, name)
        # This covers most numbers of most messages; a call would take as long as all four comparisons.
        if type(value) is not int or not 0 <= value <= INT_MAX:
            check_number(name, value)
    check_number("prepared_transaction_offset", message.prepared_transaction_offset, 64)
    if message.born_timestamp_ms is not None:
        check_number("born_timestamp_ms", message.born_timestamp_ms, 64)
    check_bytes("body", message.body)
    check_bytes("properties", message.properties)
    check_host("born_host", message.born_host)
    check_host("store_host", message.store_host)


def check_number(name: str, value: object, bits: int = 32, least: int | None = None) -> int:
    """Return a signed integer of `bits` bits that is at least `least`; else raise."""
    if type(value) is not int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise WrongKind(f"{name} is not a whole number: {shown(value)}")
        value = index(value)
    if not -1 << bits - 1 <= value < 1 << bits - 1:
        raise BadRequest(f"{name} does not fit in {bits} bits: {shown(value)}")
    if least is not None and value < least:
        raise BadRequest(f"{name} is less than {least}: {value}")
    return value


def check_real(name: str, value: object, least: float = 0, most: float = math.inf) -> None:
    """Raise unless the value is a number in least..most."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongKind(f"{name} is not a number: {shown(value)}")
    # A NaN is in no range.
    if not least <= value <= most:
        raise BadRequest(f"{name} is not in {least}..{most}: {shown(value)}")
    # It is added to the float of a clock; infinity can be.
    if isinstance(value, int) and abs(value) > float_info.max:
        raise BadRequest(f"{name} does not fit in a float: {shown(value)}")


def check_path(name: str, value: object) -> None:
    """Raise unless the value is a path, as text or pathlib's, that a file can have."""
    if not isinstance(value, str | PurePath):
        raise WrongKind(f"{name} is not a path: {shown(value)}")
    text = str(value)
    if not text:
        raise BadRequest(f"{name} is empty")
    if "\0" in text:
        raise BadRequest(f"{name} holds a zero byte: {quoted(text)}")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise BadRequest(f"a lone surrogate in {name}: {quoted(text)}") from None


def check_call(name: str, value: object) -> None:
    """Raise WrongKind for a value that cannot be called."""
    if not callable(value):
        raise WrongKind(f"{name} cannot be called: it is {type(value).__name__}")


def check_kind(name: str, value: object, kind: type) -> None:
    """Raise WrongKind for a value of another type."""
    if not isinstance(value, kind):
        raise WrongKind(f"{name} is not a {kind.__name__}, but {type(value).__name__}")


def check_sequence(name: str, value: object) -> None:
    """Raise WrongKind for a value that is not a sequence of several values."""
    if isinstance(value, _ONE_VALUE) or not isinstance(value, Sequence):
        raise WrongKind(f"{name} is not a Sequence, but {type(value).__name__}")


def check_names(name: str, value: object) -> None:
    """Raise unless the value is a collection of texts."""
    if isinstance(value, _ONE_VALUE) or not isinstance(value, Collection):
        raise WrongKind(f"{name} is not a collection of names, but {type(value).__name__}")
    for one in value:
        check_text(f"one of {name}", one)


def check_same(properties: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Raise BadRequest for a property with another value than its argument."""
    for key, value in given.items():
        if properties.get(key) not in (None, "", value):
            raise BadRequest(f"{_ARGUMENTS[key]} and the property {key} differ; leave one of them out")


def check_property(name: str, value: object) -> str:
    """Return a text that a property can hold; else raise."""
    text = check_text(name, value)
    if not {NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR}.isdisjoint(text):
        raise BadRequest(f"{name} holds the byte 1 or 2, which separate properties")
    return text


def check_text(name: str, value: object) -> str:
    """Return a text that can be encoded in UTF-8; else raise."""
    if not isinstance(value, str):
        raise WrongKind(f"{name} is not text: {shown(value)}")
    # ASCII has no surrogates, and isascii is fast.
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadRequest(f"a lone surrogate in {name}: {quoted(value)}", hint="give text that is UTF-8") from None
    return value


def join_texts(name: str, values: object, separator: str) -> str:
    """Return one text as it is, several with the separator between them; else raise."""
    if isinstance(values, str):
        return values
    if isinstance(values, _ONE_VALUE) or not isinstance(values, Iterable):
        raise WrongKind(f"{name} is not a list of texts: {shown(values)}")
    return separator.join(check_text(name, value) for value in values)


def check_flag(name: str, value: object) -> bool:
    """Return a bool; else raise."""
    if not isinstance(value, bool):
        raise WrongKind(f"{name} is neither true nor false: {shown(value)}")
    return value


def check_queue(topic: object, queue_id: object) -> None:
    """Raise unless these are a topic and a number of 32 bits; a negative number is allowed."""
    check_text("topic", topic)
    check_number("queue_id", queue_id)


def check_get(topic: object, queue_id: object, offset: object, max_count: object) -> None:
    """Raise for invalid arguments of a get."""
    check_queue(topic, queue_id)
    check_number("offset", offset, 64)
    check_number("max_count", max_count, 64, 1)


def check_query(
    topic: object, key: object, max_count: object, begin_ms: object, end_ms: object, **flags: object
) -> None:
    """Raise for invalid arguments of a query by key."""
    check_text("topic", topic)
    check_text("key", key)
    check_number("max_count", max_count, 64, 0)
    check_number("begin_ms", begin_ms, 64)
    check_number("end_ms", end_ms, 64)
    for name, value in flags.items():
        check_flag(name, value)


def check_bytes(name: str, value: object) -> None:
    """Raise unless the value is bytes or a contiguous view of bytes."""
    if isinstance(value, (bytes, bytearray)):
        return
    if not isinstance(value, memoryview) or value.itemsize != 1 or not value.contiguous:
        raise WrongKind(f"{name} is not bytes, but {type(value).__name__}")


def check_host(name: str, value: object) -> None:
    """Raise unless the value is an address of 4 or 16 bytes with a port of 32 bits."""
    if not isinstance(value, tuple) or len(value) != 2 or type(value[0]) is not bytes:
        raise WrongKind(f"{name} is not a host: {shown(value)}")
    if len(value[0]) not in _ADDRESS_SIZES:
        raise BadRequest(f"{name} has an address of {len(value[0])} bytes, not 4 or 16")
    if type(value[1]) is not int or not 0 <= value[1] <= INT_MAX:
        check_number(f"the port of {name}", value[1])
