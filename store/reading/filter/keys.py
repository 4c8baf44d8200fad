"""The filter for one key: the message has it in KEYS, or as its unique key."""

from __future__ import annotations

from collections.abc import Mapping

from store.formats.message import StoredMessage
from store.formats.properties import KEYS, UNIQ_KEY, split_keys
from store.formats.queue_unit import ExtUnit


class KeyExpression:
    """Matches messages with `text` as a key. A queue unit has no keys, so every record is read."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def matches_tags_code(self, tags_code: int, ext: ExtUnit | None = None) -> bool:
        """Return True for every unit."""
        return True

    def matches(self, message: StoredMessage) -> bool:
        """Return whether a read message has the key."""
        return self.matches_properties(message.properties)

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Return whether the properties of a new message have the key."""
        return self.text == properties.get(UNIQ_KEY) or self.text in split_keys(properties.get(KEYS, ""))
