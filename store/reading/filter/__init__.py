"""Message filters: they select messages of a queue for a reader.

A broker filters twice, and users of this package do the same:

    1. on the queue unit, before the record is read:   matches_tags_code(tags_code)
    2. on the record, after it was read:               matches(message), which looks at its properties

`TagExpression` compares the tags' hash in the first step, and their text in the second. In RocketMQ a consumer's client
does the second step, as two tags may share a hash. `SqlFilter` accepts every unit and decides by the properties.
"""

from __future__ import annotations

from store.reading.filter.keys import KeyExpression
from store.reading.filter.sql92 import SqlFilter, compile_sql
from store.reading.filter.tags import TagExpression

__all__ = ["KeyExpression", "SqlFilter", "TagExpression", "compile_sql"]
