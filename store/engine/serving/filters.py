"""Filters of the control socket: a request holds a filter's text, and the owner compiles it again."""

from __future__ import annotations

from store.engine.serving.frames import Head
from store.errors import BadRequest
from store.formats.given import check_text
from store.reading.filter.keys import KeyExpression
from store.reading.filter.sql92 import SqlFilter, compile_sql
from store.reading.filter.tags import TagExpression


def read_filter(given: Head | None) -> TagExpression | KeyExpression | SqlFilter | None:
    """Return the filter of a request, from the text of `describe_filter`."""
    if given is None:
        return None
    if "tags" in given:
        return TagExpression(check_text("tags", given["tags"]))
    if "key" in given:
        return KeyExpression(check_text("key", given["key"]))
    return compile_sql(check_text("sql", given["sql"]))


def describe_filter(given: object) -> dict[str, str] | None:
    """Return a filter's text for a request; BadRequest for a filter without a text."""
    if given is None:
        return None
    if isinstance(given, TagExpression):
        return {"tags": given.text}
    if isinstance(given, KeyExpression):
        return {"key": given.text}
    if isinstance(given, SqlFilter):
        return {"sql": given.text}
    raise BadRequest("a filter for a served store is a TagExpression, a KeyExpression or a compiled SQL expression")
