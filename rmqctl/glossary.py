"""The glossary: rmqctl-glossary(7), and `rmqctl help glossary`."""

from __future__ import annotations

from collections.abc import Iterator

TERMS = {
    "abort marker": "The file `abort`. A broker makes it when it starts and removes it when it stops: where it is, the "
    "last one did not stop.",
    "blank": "The end of a segment that the next record did not fit into; it has a size and a magic of its own.",
    "certain, damaged, partial": "Grades of a salvaged record: its own CRC, place and neighbours agree; its body has "
    "not the record's CRC; some of its bytes are lost or doubtful.",
    "checkpoint": "A page with store times up to which log, queues and index were on disk. A recovery begins there.",
    "confirm offset": "In controller mode the log offset that all replicas in sync have. Later records may go.",
    "consume queue, queue": "The messages of one topic and queue id in their order: a unit for each, in files.",
    "derived files": "Queues and index: what follows from the log, and can be built from it.",
    "entry": "A row of an index file: hash of a key, log offset, seconds, and the entry before it in its chain. Also a "
    "record of a DLedger log.",
    "expired": "Of a message: its segment was deleted by the retention rules. Its queue offset is given to no other.",
    "half message": "The first part of a transaction. Consumers do not see it until its producer commits.",
    "leftover": "A record behind the log's end, from before a cut, or inside of an older record that a later one "
    "covers in part.",
    "light queue, LMQ": "A queue without a topic of its own (%LMQ%...), which messages of other topics name.",
    "log, commit log": "All messages of all topics in the order in which they came, in segments.",
    "log end": "The log offset behind the last whole record.",
    "log offset": "The place of a record in the log, in bytes since its beginning.",
    "op message": "The end of a half message, as a record of its own.",
    "placeholder": "A record that a salvage puts in the place of a lost one, so that later queue offsets stay.",
    "pre-blank": "Units that stand for messages before the first one of a queue that was made anew.",
    "queue offset": "The number of a message in its queue.",
    "segment": "A file of the commit log, 1 GiB by default. Its name is the log offset of its first byte.",
    "store time": "When the broker stored a message; the born time is when its producer made it.",
    "tags code": "The hash of a message's tags in its unit; of a delayed message its deliver time.",
    "trusted time": "The time up to which a recovery takes everything to be on disk, by the checkpoint.",
    "unique key": "The id that a client gives a message (UNIQ_KEY); the message id names broker and log offset.",
    "unit": "20 bytes of a consume queue: log offset, size and tags code of one message.",
}
"""Each term with its meaning, in the words that messages and pages use."""


def glossary_lines(width: int = 80) -> Iterator[str]:
    """The glossary as text."""
    import textwrap

    for term, text in TERMS.items():
        yield term
        yield from textwrap.wrap(text, width, initial_indent="    ", subsequent_indent="    ")
