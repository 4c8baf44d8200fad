"""The destination, form and store time of messages of `put --input`.

--as-new      as a producer would send them (the default), each message once (CopyFilter); a message in the schedule
              topic goes to its real topic, and the store delays it again
--as-stored   as they were stored, in the same topic and queue; nothing is delayed again
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from store import Host, LiveStore, Message, PutResult

AsStored = Annotated[
    bool,
    typer.Option(
        "--as-stored/--as-new",
        help="With --input: all lines as stored, or each message once, as new.",
    ),
]
KeepTimes = Annotated[bool, typer.Option("--keep-times", help="With --input: keep store_timestamp_ms.")]
TopicMap = Annotated[
    list[str] | None, typer.Option(metavar="OLD=NEW", help="With --input: rename a topic; repeatable.")
]
QueueMap = Annotated[
    list[str] | None,
    typer.Option(metavar="[TOPIC:]OLD=NEW", help="With --input: another queue id, of all topics or one; repeatable."),
]


@dataclass(frozen=True, slots=True)
class PutForm:
    """Changes messages on their way into a store. A queue is mapped by its topic's old name."""

    as_stored: bool
    keep_times: bool
    topics: dict[str, str]
    queues: dict[tuple[str | None, int], int]
    store_host: Host | None = None

    @classmethod
    def given(
        cls,
        as_stored: bool,
        keep_times: bool,
        topic_map: Sequence[str] | None,
        queue_map: Sequence[str] | None,
        store_host: Host | None = None,
    ) -> PutForm:
        """Return the form by the options; raise a usage error for a map that is not OLD=NEW."""
        topics = map_of(topic_map or (), "--topic-map")
        queues = dict(map(_queue, map_of(queue_map or (), "--queue-map").items()))
        return cls(as_stored, keep_times, topics, queues, store_host)

    @property
    def is_plain(self) -> bool:
        """Whether messages may be put many at a time."""
        return not (self.as_stored or self.keep_times)

    @property
    def moves(self) -> bool:
        """Whether a topic or queue is mapped."""
        return bool(self.topics or self.queues)

    def place(self, message: Message) -> Message:
        """Return the message with its new topic, queue id and store host."""
        if not self.as_stored:
            from store.verbs import at_real_place

            message = at_real_place(message)
            if self.store_host is not None:
                message = replace(message, store_host=self.store_host)
        topic = self.topics.get(message.topic, message.topic)
        queue_id = message.queue_id
        for key in ((message.topic, queue_id), (None, queue_id)):
            if key in self.queues:
                queue_id = self.queues[key]
                break
        if (topic, queue_id) == (message.topic, message.queue_id):
            return message
        return replace(message, topic=topic, queue_id=queue_id)

    def put(self, opened: LiveStore, message: Message, store_timestamp_ms: int | None) -> PutResult:
        """Put a placed message."""
        if self.is_plain:
            return opened.put(message)
        time = store_timestamp_ms if self.keep_times else None
        return opened.put_replayed(message, as_stored=self.as_stored, store_timestamp_ms=time)


def map_of(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return new names by old ones, from OLD=NEW; a usage error for other texts and a second new name."""
    found: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if not (old and equals and new):
            raise typer.BadParameter(f"{text!r} is not OLD=NEW", param_hint=option)
        if found.setdefault(old, new) != new:
            raise typer.BadParameter(f"{old!r} has two new names: {found[old]!r} and {new!r}", param_hint=option)
    return found


def _queue(pair: tuple[str, str]) -> tuple[tuple[str | None, int], int]:
    from store.layout import parse_whole_number

    old, new = pair
    topic, colon, number = old.rpartition(":")
    numbers = parse_whole_number(number), parse_whole_number(new)
    if numbers[0] is None or numbers[1] is None:
        raise typer.BadParameter(
            f"{'='.join(pair)[:40]!r} is not [TOPIC:]OLD=NEW with queue ids", param_hint="--queue-map"
        )
    return (topic if colon else None, numbers[0]), numbers[1]
