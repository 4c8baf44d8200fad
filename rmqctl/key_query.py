"""Messages by key, through the index, for `index-query` and `get --key`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqctl.context import Session
from rmqctl.hints import describe
from rmqctl.show import did_you_mean

if TYPE_CHECKING:
    from store import QueryResult, ReadableStore, StoredMessage

MOST = 64
"""A broker's limit of messages in an answer (maxMsgsNumBatch)."""


class KeyQuery(NamedTuple):
    """A query of the index; store times in ms."""

    topic: str
    key: str
    max_count: int
    since_ms: int
    until_ms: int
    by_tags: bool = False
    in_database: bool = False
    verify: bool = True
    only_sound: bool = False
    outer: bool = False

    @property
    def what(self) -> str:
        return f"{'tags' if self.by_tags else 'key'} {self.key}"


def find_by_key(session: Session, asked: KeyQuery, opened: ReadableStore) -> tuple[list[StoredMessage], QueryResult]:
    """Return the messages, newest first, and the index's answer; warn of damage and of an unknown topic."""
    # An index entry has whole seconds after its file's begin: its message may be later by less than one.
    is_brokers = asked.in_database or not asked.verify
    answer = opened.query(
        asked.topic,
        asked.key,
        asked.max_count,
        asked.since_ms if is_brokers else max(0, asked.since_ms - 999),
        asked.until_ms,
        verify=asked.verify,
        by_tags=asked.by_tags,
        in_database=asked.in_database,
    )
    records = [record for record in answer.messages if record.is_crc_right or not asked.only_sound]
    if not is_brokers:
        records = [record for record in records if asked.since_ms <= record.store_timestamp_ms <= asked.until_ms]
    found = (
        records if asked.outer or asked.by_tags else [one for record in records for one in _inside(record, asked.key)]
    )
    if not found and asked.topic not in (topics := set(opened.topics())):
        session.note(f"no topic is called {asked.topic!r}{did_you_mean(asked.topic, topics)}")
    if answer.is_limited:
        session.note("note: the search ended at its limit; other messages may have the key")
    for damage in answer.damaged:
        session.warn(describe(damage))
    return found, answer


def _inside(record: StoredMessage, key: str) -> list[StoredMessage]:
    from store.reading import messages_inside

    return messages_inside(record, lambda message: key == message.uniq_key or key in message.keys)
