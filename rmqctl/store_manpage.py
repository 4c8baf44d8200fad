"""rmqstore(5): the files of a store on disk. Positions and sizes come from the format modules."""

from __future__ import annotations

import re
from collections.abc import Sequence

from store import formats
from store.formats import IPV4_HOST_SIZE, IPV6_HOST_SIZE

TREE = """\
commitlog/<20 digits>                            the messages of all topics
consumequeue/<topic>/<queue id>/<20 digits>      for each queue: the log offsets of its messages
consumequeue_ext/<topic>/<queue id>/<20 digits>  filter bit maps, only if enableConsumeQueueExt
index/<17 digits>                                for each key's hash: the log offsets of its messages
checkpoint                                       times up to which the files can be trusted
abort                                            there while a broker runs, or after a crash
lock                                             byte 0 is locked by the running broker
config/*.json                                    the broker's tables: topics, consumer offsets
.rmqctl/                                         files that rmqctl removed (quarantine), and staging files
"""

_IPV6_EXTRA = IPV6_HOST_SIZE - IPV4_HOST_SIZE
_RECORD = (
    ("total size", "int", "of the whole record, this field included"),
    ("magic", "int", f"0x{formats.message.MESSAGE_MAGIC_V1:08X} (V1) or 0x{formats.message.MESSAGE_MAGIC_V2:08X} (V2)"),
    ("body CRC", "int", "CRC-32 of the stored body without its top bit"),
    ("queue id", "int", ""),
    ("flag", "int", "the producer's own"),
    ("queue offset", "long", "number of the message in its queue; 0 if prepared or rolled back"),
    ("log offset", "long", "the record's own address"),
    ("sys flag", "int", "see below"),
    ("born time", "long", "when the producer made it"),
    (
        "born host",
        "host",
        f"{IPV4_HOST_SIZE} bytes, or {IPV6_HOST_SIZE} for IPv6: address, then the port as an int",
    ),
    ("store time", "long", "when the broker stored it"),
    ("store host", "host", "as born host"),
    ("reconsume times", "int", ""),
    ("prepared offset", "long", "of the prepared message, for commit and rollback"),
    ("body size, body", "int + n", ""),
    ("topic size, topic", "byte + n", "a short + n in V2"),
    ("properties size, text", "short + n", "at most 32767 bytes"),
)
_SYS_FLAGS = (
    (formats.message.COMPRESSED, "the body is compressed"),
    (formats.message.MULTI_TAGS, "the message has several tags"),
    (formats.message.TRANSACTION_PREPARED, "transaction: prepared"),
    (formats.message.TRANSACTION_COMMIT, "transaction: committed"),
    (formats.message.TRANSACTION_ROLLBACK, "transaction: rolled back (both bits)"),
    (formats.message.BORN_HOST_IPV6, "the born host is IPv6"),
    (formats.message.STORE_HOST_IPV6, "the store host is IPv6"),
)
_UNIT = (
    (0, "long", "log offset of the record"),
    (formats.queue_unit.SIZE_AT, "int", "total size of the record"),
    (formats.queue_unit.TAGS_AT, "long", "hash of the tags; or deliver time; or an address in consumequeue_ext"),
)
_INDEX_HEADER = (
    (formats.index_page.BEGIN_TIME_AT, "long", "store time of the first entry"),
    (formats.index_page.END_TIME_AT, "long", "store time of the last entry"),
    (formats.index_page.BEGIN_OFFSET_AT, "long", "log offset of the first entry"),
    (formats.index_page.END_OFFSET_AT, "long", "log offset of the last entry"),
    (formats.index_page.SLOT_COUNT_AT, "int", "slots in use"),
    (formats.index_page.INDEX_COUNT_AT, "int", "number of the next entry; begins at 1, entry 0 is never used"),
)
_INDEX_ENTRY = (
    (0, "int", "key hash: Java hash of TOPIC#KEY, made positive"),
    (4, "long", "log offset of the record"),
    (12, "int", "seconds since the file's begin time"),
    (16, "int", "number of the next older entry of the slot, 0 at the end"),
)
_CHECKPOINT = (
    (0, "long", "store time up to which the commit log was flushed"),
    (8, "long", "store time of the last message put into a consume queue"),
    (16, "long", "end time of the last full index file that was flushed"),
    (24, "long", "5.x: offset flushed on the master"),
    (32, "long", "5.x: log offset of the last valid record at the last recovery"),
    (40, "long", "5.5: log offset of the newest flushed queue entry's record"),
)


def store_page(version: str) -> str:
    """Return the page as troff text."""
    parts = [
        f'.TH RMQSTORE 5 "" "rmqctl {version}" "rmqctl manual"',
        '.\\" Written by rmqctl.manpages; change rmqctl/store_manpage.py instead.',
        ".SH NAME\nrmqstore \\- the files of a RocketMQ message store",
        *_overview(),
        *_commit_log(),
        *_queues(),
        *_index(),
        *_small_files(),
        ".SH SEE ALSO\n.BR rmqctl (1)",
    ]
    return "\n".join(parts) + "\n"


def _overview() -> list[str]:
    return [
        ".SH DESCRIPTION",
        _text(
            "A broker keeps its messages in one folder, storePathRootDir, by default ~/store. All integers "
            "are signed and big-endian; times are milliseconds since 1970; text is UTF-8. A file named by 20 "
            "digits is preallocated at its full size, and its name is the offset of its first byte."
        ),
        _literal(TREE),
        _text(
            "Only commitlog holds messages. The consume queues and the index are derived from it and can be "
            "rebuilt from it (rmqctl-recover(1))."
        ),
    ]


def _commit_log() -> list[str]:
    return [
        ".SH COMMIT LOG",
        _text(
            "Records follow one another; none crosses a file. A record identifies itself: it holds its "
            "own log offset. Fields in their order:"
        ),
        _table(("field", "type", "meaning"), _RECORD),
        _text(
            f"The smallest record has {formats.message.RECORD_MIN_SIZE} bytes. "
            f"Every IPv6 host adds {_IPV6_EXTRA}, V2 adds 1. "
            "5.x writes V2 for topics of more than 127 characters; a 4.x broker treats such a record as damage."
        ),
        _text("Bits of the sys flag:"),
        _table(("bit", "meaning"), tuple((f"0x{bit:X}", text) for bit, text in _SYS_FLAGS)),
        _text(
            "A record that does not fit with 8 bytes to spare goes into the next file, and the rest of this "
            f"one becomes a blank: an int with its size, and the magic 0x{formats.message.BLANK_MAGIC:08X}. The "
            "bytes after them may be anything."
        ),
        _text(
            "Properties are one text: name, byte 1, value, byte 2, name, and so on. 4.x leaves out the last "
            "byte 2. KEYS (separated by spaces) and UNIQ_KEY are indexed, TAGS is hashed into the queue entry, "
            "DELAY is a delay level: such a message is stored in SCHEDULE_TOPIC_XXXX, with its real topic and queue "
            "in REAL_TOPIC and REAL_QID."
        ),
        _text("A message id is the hexadecimal text of the store host and the log offset: 32 digits, 56 for IPv6."),
    ]


def _queues() -> list[str]:
    return [
        ".SH CONSUME QUEUES",
        _text(
            f"Entries of {formats.queue_unit.UNIT_SIZE} bytes; the entry at byte 20 x N of the queue belongs to queue "
            "offset N. The default file has 300,000 entries."
        ),
        _table(("at", "type", "meaning"), _UNIT),
        _text(
            "An entry of zeros was never written. Prepared and rolled-back messages have no entry. If a queue does "
            "not begin at a file's start, the file is filled up to its first entry with entries of offset 0 and size "
            f"0x{formats.queue_unit.PRE_BLANK_SIZE:X}. For a delayed message the tags field is the time of delivery."
        ),
        _text(
            f"consumequeue_ext holds entries of {formats.queue_unit.EXT_UNIT_MIN_SIZE} bytes and a bit map: short "
            "size, long tags, long store time, short size of the bit map. A short of -1 ends a file."
        ),
    ]


def _index() -> list[str]:
    return [
        ".SH INDEX",
        _text(
            f"A header of {formats.index_page.HEADER_SIZE} bytes, slots of {formats.index_page.SLOT_SIZE}, entries of "
            f"{formats.index_page.ENTRY_SIZE}. The file's name is the local time of its creation, yyyyMMddHHmmssSSS."
        ),
        _text("Header:"),
        _table(("at", "type", "meaning"), _INDEX_HEADER),
        _text("A slot is an int: the number of the newest entry whose key hash modulo the slots is this slot. Entry:"),
        _table(("at", "type", "meaning"), _INDEX_ENTRY),
        _text("The key itself is not stored, so only the records distinguish two keys of one hash."),
    ]


def _small_files() -> list[str]:
    return [
        ".SH CHECKPOINT",
        _text(f"One page of {formats.checkpoint_page.CHECKPOINT_SIZE} bytes, zero after these fields:"),
        _table(("at", "type", "meaning"), _CHECKPOINT),
        _text(
            "After a crash a broker begins at the newest segment whose first message is at least "
            f"{formats.checkpoint_page.SAFETY_MARGIN_MS} ms older than the first two of these times; without one, at "
            "the first segment."
        ),
        ".SH ABORT AND LOCK",
        _text(
            "abort is there while a broker runs. If it is there at a start, the last run did not end cleanly. "
            "4.x leaves it empty, 5.x writes its process id. lock holds the text lock; the running broker has an "
            "fcntl write lock on its byte 0."
        ),
        ".SH ONLY READ",
        _text(
            "Consume queues of 5.x in a RocksDB (storeType=defaultRocksDB) are read, checked, recovered and rebuilt, "
            "and not changed otherwise. They are read from a copy of the database's small files, by the package "
            "rocksdict. Without it, or if the database is damaged, the queues are built from the log, with a note. "
            "Beside queue files (rocksdbCQDoubleWriteEnable) the files are read, and the RocksDB is checked, recovered "
            "and rebuilt with them. A store of a broker newer than 5.5 is read, and never changed. A DLedger log is "
            "read like a plain one: each of its entries is a header of 48 bytes and a record."
        ),
    ]


def _text(text: str) -> str:
    return f".PP\n{roff(text)}"


def _literal(text: str) -> str:
    body = "\n".join(roff(line) for line in text.splitlines())
    return f".PP\n.nf\n.RS 2\n{body}\n.RE\n.fi"


def _table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table aligned with spaces, readable in every viewer without a preprocessor."""
    cells = [[str(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings) - 1)]
    lines = []
    for row in cells:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*padded, row[-1]]).rstrip())
    return _literal("\n".join(lines))


def roff(text: str) -> str:
    """Return text that troff takes literally."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)
