"""Filters of the control socket: a request holds a filter's text, and the owner compiles it again."""

from __future__ import annotations

from collections.abc import Callable

from store.engine.serving.frames import Head
from store.errors import BadRequest
from store.formats.given import check_text
from store.reading.filter.keys import KeyExpression
from store.reading.filter.sql92 import SqlFilter, compile_sql
from store.reading.filter.tags import TagExpression

Filter = TagExpression | KeyExpression | SqlFilter
_KINDS: dict[str, Callable[[str], Filter]] = {"tags": TagExpression, "key": KeyExpression, "sql": compile_sql}


def read_filter(given: Head | None) -> Filter | None:
    """Return the filter of a request, from the text of `describe_filter`; BadRequest for another value."""
    if given is None:
        return None
    if not isinstance(given, dict) or len(given) != 1 or given.keys() - _KINDS.keys():
        raise BadRequest("filter is neither null nor an object with one of tags, key and sql")
    ((name, text),) = given.items()
    return _KINDS[name](check_text(name, text))


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
