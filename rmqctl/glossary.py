"""The glossary: rmqctl-glossary(7), and `rmqctl help glossary`."""

from __future__ import annotations

import re
from collections.abc import Iterator

TERMS = {
    "abort marker": (
        "The file `abort`. A broker creates it at its start and removes it at a clean stop. If it is there, the last "
        "broker did not stop cleanly, or still runs."
    ),
    "blank": "The rest of a segment where the next record did not fit. It has its own size and magic.",
    "certain, body-crc, partial": (
        "Grades of a salvaged record. Certain: magic, lengths, CRC and log offset are right, and neither queues nor "
        "index contradict. Body-crc: the body does not match the CRC. Partial: something else contradicts the record."
    ),
    "checkpoint": (
        "A page with the store times up to which log, queues and index were on disk. An abnormal recovery begins there."
    ),
    "confirm offset": (
        "In controller mode, the log offset that all replicas in sync have. Later records can still be dropped."
    ),
    "consume queue, queue": "The messages of one topic and queue id in order, one entry of 20 bytes each.",
    "derived files": "Queues and index: they follow from the log and can be rebuilt from it.",
    "entry": (
        "Of a consume queue: 20 bytes with log offset, size and tags code of one message (a unit in JSON names). Of "
        "an index file: hash of a key, log offset, seconds, and the previous entry of its chain. Of a DLedger log: a "
        "record."
    ),
    "expired": "Of a message: its segment was deleted by the retention rules. Its queue offset is not used again.",
    "half message": "The first part of a transaction. Consumers do not see it until its producer commits.",
    "ledger": "Of `replay`: which messages were sent, acknowledged or in doubt, in one SQLite file.",
    "leftover": (
        "A record past the log's end, from before a truncation, or inside an older record that a later one partly "
        "overwrote."
    ),
    "LMQ, light message queue": (
        "A queue without a topic of its own (%LMQ%...). Messages of other topics are dispatched to it by a property."
    ),
    "log end": "The log offset after the last whole record.",
    "log offset": "The position of a record in the whole log, in bytes (RocketMQ: physical offset).",
    "log, commit log": "All messages of all topics in the order of arrival, in segments.",
    "op message": "A record that marks a half message as ended.",
    "placeholder": "A record that salvage writes in place of a lost one, so that later queue offsets stay the same.",
    "pre-blank": "Entries before the first message of a queue that does not begin at a file's start.",
    "queue offset": "The number of a message in its queue.",
    "segment": "A file of the commit log, 1 GiB by default. Its name is the log offset of its first byte.",
    "store time": "When the broker stored a message; the born time is when its producer made it.",
    "tags code": "The hash of a message's tags in its queue entry; for a delayed message its deliver time.",
    "trusted time": "The time in the checkpoint up to which a recovery treats everything as being on disk.",
    "unique key": "The id that a client gives a message (UNIQ_KEY); the message id names broker and log offset.",
}
"""Each term with its meaning, in the words that messages and pages use."""


def terms_in(text: str) -> list[str]:
    """Return the terms that occur in a text, in the singular or plural, in the glossary's order."""
    words = " ".join(text.split())
    terms = (term for part in TERMS for term in part.split(", "))
    return [term for term in terms if re.search(rf"\b{re.escape(term)}s?\b|\b{re.escape(term[:-1])}ies\b", words)]


def glossary_lines(width: int = 80) -> Iterator[str]:
    """Yield the glossary as text."""
    import textwrap

    for term, text in TERMS.items():
        yield term
        yield from textwrap.wrap(text, width, initial_indent="    ", subsequent_indent="    ")
