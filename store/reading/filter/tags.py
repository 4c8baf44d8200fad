"""Tag expressions: `*`, or tags joined by `||`.

    TagA || TagB

A message matches if its whole TAGS property equals one of the tags. The broker compares Java hashes (the low 32 bits of
the queue unit's tags code); the client then compares the text.

Source: FilterAPI.buildSubscriptionData, ExpressionMessageFilter.isMatchedByConsumeQueue, PullAPIWrapper (4.9.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from store.errors import BadRequest, quoted
from store.formats.java import string_hash
from store.formats.message import StoredMessage
from store.formats.queue_unit import ExtUnit

ALL = "*"
TAGS_PROPERTY = "TAGS"


class TagExpression:
    """A parsed expression; `tags` is empty when everything matches."""

    __slots__ = ("_codes", "tags", "text")

    def __init__(self, text: str) -> None:
        """Raise BadRequest for an expression of separators only."""
        self.text = text
        everything = text in ("", ALL)
        self.tags = frozenset() if everything else frozenset(filter(None, map(str.strip, text.split("||"))))
        if not self.tags and not everything:
            raise BadRequest(
                f"the tag expression {quoted(text)} has no tag", hint="write tags as 'A || B', or '*' for all"
            )
        self._codes = frozenset(string_hash(tag) & 0xFFFFFFFF for tag in self.tags)

    def matches_tags_code(self, tags_code: int, ext: ExtUnit | None = None) -> bool:
        """Return the broker's test on the queue unit; another tag with the same hash passes too."""
        return not self.tags or (tags_code & 0xFFFFFFFF) in self._codes

    def matches(self, message: StoredMessage) -> bool:
        """Return whether a read message matches, the second step."""
        return self.matches_properties(message.properties)

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Return the client's test on the text of TAGS."""
        return not self.tags or properties.get(TAGS_PROPERTY) in self.tags

    def __repr__(self) -> str:
        return f"TagExpression({self.text!r})"
