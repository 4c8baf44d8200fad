"""The entry of a DLedger log; its body is one commit-log record.

    0       4      8       16     24    32        36          40         44          48
    | magic | size | index | term | pos | channel | chain CRC | body CRC | body size | record |

magic  1 a message; in DLedger after 0.3.1.2 also 2 nothing, 3 a change of the group
pos    log offset of the entry; the record's own log offset is pos + 48

Source: DLedgerEntryCoder (dledger 0.3.1.2), DLedgerCommitLog (5.3.3).
"""

from __future__ import annotations

from store.formats.segment_head import ENTRY_HEADER

DLEDGER_HEADER = ENTRY_HEADER
DLEDGER_NAMES = (
    "magic",
    "size",
    "entry_index",
    "term",
    "entry_offset",
    "channel",
    "chain_crc",
    "body_crc",
    "body_size",
)
NEWER_MAGICS = (2, 3)
