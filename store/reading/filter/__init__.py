"""Message filters: they select a reader's messages from a queue.

A broker filters twice, and so does everything that uses this package:

    1. on the queue unit, before the record is read:   matches_tags_code(tags_code)
    2. on the record, after it was read:               matches(message), which looks at its properties

`TagExpression` compares the tags' hash in the first step, and their text in the second. A consumer's client does the
second, as two tags may share a hash. `SqlFilter` lets every unit pass and decides by the properties.
"""

from __future__ import annotations

from store.reading.filter.keys import KeyExpression
from store.reading.filter.sql92 import SqlFilter, compile_sql
from store.reading.filter.tags import TagExpression

__all__ = ["KeyExpression", "SqlFilter", "TagExpression", "compile_sql"]
