"""Message filters: which messages of a queue a reader asked for.

A broker filters twice, and so does everything that uses this package:

    1. on the queue unit, before the record is read:   matches_tags_code(tags_code)
    2. on the record's properties, after it was read:  matches_properties(properties)

`TagExpression` decides by the tags' hash in the first step and by their text in the second (a consumer's client does
the second, because two tags may share a hash). `SqlFilter` lets every unit pass and decides by the properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from store.filter.sql92 import SqlFilter, compile_sql
from store.filter.tags import TagExpression


class MessageFilter(Protocol):
    """What a reader needs of a filter."""

    def matches_tags_code(self, tags_code: int) -> bool:
        """False when a message with this tags code (of its queue unit) cannot match."""

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """True when a message with these properties matches."""


__all__ = ["MessageFilter", "SqlFilter", "TagExpression", "compile_sql"]
