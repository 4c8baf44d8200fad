"""The puts of a real broker, repeated with this store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from store import open_store
from store.formats.message import Message
from tests.support.golden import Golden, messages_of
from tests.support.stores import Clock


def put_all(archive: Golden, root: Path, reopen_every: int = 0, **settings: object) -> list[dict[str, object]]:
    """Put input.jsonl at the store times of write.jsonl; return the answers in the same form."""
    clock = Clock()
    options = {
        "settings": {**archive.settings, **settings},
        "read_only": False,
        "clock": clock,
        "compat": archive.compat,
    }
    store = open_store(root, **options)
    answers: list[dict[str, object]] = []
    if archive.compat == "5.3":
        # A 5.3 broker delays messages in a hook in front of its store, which wrote the archive without it.
        store.opened.log.rules.delayed = lambda message: message
    else:
        # The archives' writer has a map with empty values, which a broker drops as it decodes a request.
        delayed = store.opened.log.rules.delayed
        store.opened.log.rules.delayed = lambda message: _with_values(
            delayed(_with_values(message, b"\x01\x02", b"\x01?\x02")), b"\x01?\x02", b"\x01\x02"
        )
    for number, put in enumerate(archive.puts()):
        if reopen_every and number and number % reopen_every == 0:
            store.close()
            store = open_store(root, **options)
        clock.now_ms = put.answer["storeTimestamp"]
        messages = messages_of(put)
        result = store.put_batch(messages) if put.is_batch else store.put(messages[0])
        answers.append(
            {
                "status": result.status.value,
                "appendStatus": "PUT_OK",
                "msgId": result.msg_id,
                "wroteOffset": result.log_offset,
                "wroteBytes": result.size,
                "logicsOffset": result.queue_offset,
                "storeTimestamp": result.store_timestamp_ms,
                "msgNum": result.message_count,
            }
        )
    store.close()
    return answers


def _with_values(message: Message, old: bytes, new: bytes) -> Message:
    return replace(message, properties=message.properties.replace(old, new))
