"""The filter of one key: a message has it among its KEYS, or as its unique key."""

from __future__ import annotations

from collections.abc import Mapping

from store.formats.message import StoredMessage
from store.formats.properties import KEYS, UNIQ_KEY, split_keys
from store.formats.queue_unit import ExtUnit


class KeyExpression:
    """The messages that have `text` as a key; a queue unit holds no keys, so that each record is read."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def matches_tags_code(self, tags_code: int, ext: ExtUnit | None = None) -> bool:
        """Let every unit pass."""
        return True

    def matches(self, message: StoredMessage) -> bool:
        """Test a message that was read."""
        return self.matches_properties(message.properties)

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Test the properties of a message that arrives."""
        return self.text == properties.get(UNIQ_KEY) or self.text in split_keys(properties.get(KEYS, ""))
