"""Disguises of texts: other texts of the same length in UTF-8, with the same Java hash code.

Queues hold the hash code of a message's tags, the index those of its keys. A disguised text leaves both unchanged.
Latin letters and digits replace ASCII characters. 64 letters each replace characters of two and of three bytes;
characters of four bytes stay. Few texts of fewer than eight characters share a hash code: a short text can be guessed,
and a single character stays. So does a text whose last eight characters are mostly of four bytes.
The disguise depends only on the text and a salt, so equal texts stay equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from operator import eq

from store.formats.java import string_hash, utf16_units
from store.formats.properties import KEY_SEPARATOR, KEYS, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, TAGS

Alphabet = Sequence[int]
_ASCII = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TWO_BYTES, _THREE_BYTES = range(0x100, 0x140), range(0x4E00, 0x4E40)
_SOLVED = 8
"""The number of last characters chosen for the hash code; the digest chooses the earlier ones."""
_TRIED = 64
"""The number of tried texts with the right hash code; the one with the fewest equal characters is used."""
_WRAP = 1 << 32
_KEPT_TEXTS = 1 << 16
# fmt: off
BROKERS = frozenset((
    "WAIT", "DELAY", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "TRAN_MSG", "PGROUP", "MIN_OFFSET", "MAX_OFFSET",
    "ORIGIN_MESSAGE_ID", "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "RECONSUME_TIME", "MSG_REGION",
    "TRACE_ON", "UNIQ_KEY", "EXTEND_UNIQ_INFO", "MAX_RECONSUME_TIMES", "CONSUME_START_TIME", "INNER_NUM",
    "INNER_BASE", "DUP_INFO", "CHECK_IMMUNITY_TIME_IN_SECONDS", "TRANSACTION_PREPARED_QUEUE_OFFSET",
    "TRANSACTION_CHECK_TIMES", "__transactionId__", "POP_CK", "POP_CK_OFFSET", "1ST_POP_TIME",
    "FORWARD_QUEUE_ID", "REDIRECT", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET", "TIMER_DELAY_SEC",
    "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_LEVEL", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS",
    "TIMER_ROLL_TIMES", "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID",
    "CLUSTER", "INSTANCE_ID", "MSG_TYPE", "REPLY_TO_CLIENT", "TTL", "ARRIVE_TIME", "PUSH_REPLY_TIME",
    "__CRC32#", "RMQCTL_LOST",
))
# fmt: on
"""Properties that brokers and clients set. Source: MessageConst (4.9.8, 5.5.0)."""


def hide_values(properties: bytes, salt: bytes, own: Mapping[str, Callable[[str], str]] | None = None) -> bytes:
    """Disguise the values of a property string; names and lengths stay.

    own  the disguises of a broker's own properties, by name; others of these stay
    """
    separator = PROPERTY_SEPARATOR.encode()
    return separator.join(_hide_value(part, salt, own or {}) for part in properties.split(separator))


def _hide_value(part: bytes, salt: bytes, own: Mapping[str, Callable[[str], str]]) -> bytes:
    name, separator, value = part.partition(NAME_VALUE_SEPARATOR.encode())
    known = name.decode("utf-8", "replace")
    if not separator or (known in BROKERS and known not in own):
        return part
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return name + separator + b"?" * len(value)
    if known in own:
        text = own[known](text)
    elif known == KEYS:
        text = KEY_SEPARATOR.join(disguise(one, salt) for one in text.split(KEY_SEPARATOR))
    elif known == TAGS:
        text = disguise(text, salt)
    else:
        text = fill(text, salt)
    return name + separator + text.encode("utf-8", "surrogatepass")


@lru_cache(_KEPT_TEXTS)
def disguise(text: str, salt: bytes) -> str:
    """Return another text with the same length and hash code; the same text if none is found."""
    filler, units = _filler(text, salt), utf16_units(text)
    solved = max(0, len(filler) - _SOLVED)
    front, tail = filler[:solved], filler[solved:]
    wanted = (string_hash(text) - string_hash(_text(front)) * pow(31, len(tail), _WRAP)) % _WRAP
    alphabets = [_alphabet(unit) for unit in tail]
    found = list(islice(_tails(alphabets, wanted, sum(tail)), 1 if front else _TRIED))
    best = min(found, key=lambda one: sum(map(eq, one, units[solved:])), default=None)
    return text if best is None else _text(front + best)


def _tails(alphabets: Sequence[Alphabet], wanted: int, turn: int) -> Iterator[list[int]]:
    """Yield units of these alphabets with hash code `wanted`; `turn` selects the first."""
    bounds = [(0, 0)]
    for power, alphabet in enumerate(reversed(alphabets)):
        least, most = bounds[0]
        bounds.insert(0, (least + min(alphabet) * 31**power, most + max(alphabet) * 31**power))
    least, most = bounds[0]
    sums = range(least + (wanted - least) % _WRAP, most + 1, _WRAP)
    for number in range(len(sums)):
        yield from _with_sum(alphabets, bounds[1:], sums[(number + turn) % len(sums)])


def _with_sum(alphabets: Sequence[Alphabet], bounds: Sequence[tuple[int, int]], total: int) -> Iterator[list[int]]:
    """Yield lists of one unit per alphabet; their sum, weighted as in a hash code, is `total`.

    bounds  least and largest sum of the units after each
    """
    if not alphabets:
        if not total:
            yield []
        return
    weight, (least, most) = 31 ** (len(alphabets) - 1), bounds[0]
    for unit in range(-((most - total) // weight), (total - least) // weight + 1):
        if unit in alphabets[0]:
            for others in _with_sum(alphabets[1:], bounds[1:], total - unit * weight):
                yield [unit, *others]


def fill(text: str, salt: bytes) -> str:
    """Return another text with the same lengths, chosen by the digest."""
    return _text(_filler(text, salt))


def _filler(text: str, salt: bytes) -> list[int]:
    """Return UTF-16 units of the same UTF-8 lengths as a text's, chosen by its digest."""
    units = utf16_units(text)
    digest = hashlib.shake_256(salt + b"\0" + text.encode("utf-8", "surrogatepass")).digest(len(units))
    return [_alphabet(unit)[byte % len(_alphabet(unit))] for unit, byte in zip(units, digest, strict=True)]


def _alphabet(unit: int) -> Alphabet:
    """Return the units that may replace a unit: those of the same length in UTF-8."""
    if unit < 0x80:
        return _ASCII
    if unit < 0x800:
        return _TWO_BYTES
    return (unit,) if 0xD800 <= unit < 0xE000 else _THREE_BYTES


def _text(units: Sequence[int]) -> str:
    return b"".join(unit.to_bytes(2, "big") for unit in units).decode("utf-16-be", "surrogatepass")
