"""Refuse a query whose types only one engine takes.

DuckDB converts a value to the type that an operator wants: `not size`, `true = 1`, a union of text and a map. Spark
refuses most of these, or converts by other rules. In DuckDB's bound plan each conversion is a cast:

    text ──> bound plan ──> each cast, function and order, by the tables below ──> BadRequest | accepted

In the text of the plan a query's own cast is a TRY_CAST, so that a CAST is one that DuckDB has added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from store.query.tables.dialect import check_written, refusal

Node = Mapping[str, Any]

NUMBER, TEXT, BOOLEAN, TIME, DATE, BYTES = "a number", "text", "a boolean", "a time", "a date", "bytes"
LIST, MAP, INTERVAL, NULL = "a list", "a map", "an interval", "null"
_KINDS = {
    "NULL": NULL, "BOOLEAN": BOOLEAN, "VARCHAR": TEXT, "STRING_LITERAL": TEXT, "BLOB": BYTES, "DATE": DATE,
    "TIMESTAMP": TIME, "TIMESTAMP WITH TIME ZONE": TIME, "INTERVAL": INTERVAL, "LIST": LIST, "MAP": MAP,
}  # fmt: skip
"""The kind of each type of DuckDB; all others are numbers."""

_CAST_FROM = {
    NUMBER: (NUMBER, TEXT, BOOLEAN),
    TEXT: (NUMBER, TEXT, BOOLEAN, TIME, DATE),
    BOOLEAN: (NUMBER, TEXT, BOOLEAN),
    TIME: (TEXT, TIME, DATE),
    DATE: (TEXT, TIME, DATE),
}
"""The kinds that a query may cast, by the result's kind."""

_JOINED = ("INTEGER", "BIGINT", "BOOLEAN")
"""The types with one form of text in both engines: `topic || queue_id`."""

_WRITTEN = {DATE: "date", TIME: "timestamp"}
"""The type that a text in quotes is read as, where an operator wants the kind."""

_HINTS = {BYTES: "hex(x) gives text", LIST: "get(keys, 0) is text", MAP: "properties['NAME'] is text"}
_CONVERT = "cast(x as type) converts a value"

_TAKES = {
    **dict.fromkeys(("sum", "avg", "abs", "round", "floor", "ceil", "*", "/", "%", "&"), (NUMBER,)),
    **dict.fromkeys(("||", "contains", "upper", "lower", "len"), (TEXT,)),
    **dict.fromkeys(("year", "month", "day"), (TIME, DATE)),
    **dict.fromkeys(("hour", "minute", "second", "epoch_ms"), (TIME,)),
    "hash": (TEXT, BYTES),
}
"""The kinds of arguments that a function of DuckDB may have, where it takes more than Spark."""

_CONSTANT_SECOND = {"round": "round", "WINDOW_LAG": "lag", "WINDOW_LEAD": "lead"}
_ORDERED_IN = ("distinct_targets", "groups", "partitions", "orders", "conditions")
_ORDERING = ("min", "max", "greatest", "least")


def check_types(plan: Sequence[Node], text: str) -> None:
    """Raise BadRequest for the bound plan of a text with types that only one engine takes."""
    for node, parent in _nodes(plan, {}):
        name = _name(node)
        if name and _kind(node) == INTERVAL and text[node.get("query_location", 0) :].startswith("'"):
            raise refusal("text in place of an interval")
        if name in _CONSTANT_SECOND and len(node["children"]) > 1 and not _is_constant(node["children"][1]):
            raise refusal(f"{_CONSTANT_SECOND[name]} by a column")
        if name == "__cast":
            _check_cast(node, parent)
        elif name in ("+", "-"):
            _check_sum(name, [_kind(child) for child in node["children"]])
        elif name in _TAKES:
            for kind in map(_kind, node["children"]):
                if kind not in (*_TAKES[name], NULL):
                    raise refusal(f"{name} of {kind}", _HINTS.get(kind, _CONVERT))
        if any(_kind(value) == MAP for value in _ordered(node)):
            raise refusal("an order or a comparison of a map", _HINTS[MAP])


def _check_cast(node: Node, parent: Node) -> None:
    (value,) = node["children"]
    source, target = _kind(value), _kind(node)
    if source == target or (source == NULL and not _is_condition(node, parent)):
        return
    if source == TEXT and target in _WRITTEN and value["type"] == "VALUE_CONSTANT":
        check_written(str(value["value"].get("value")), _WRITTEN[target])
    if node["function_data"].get("try_cast"):
        if source not in _CAST_FROM.get(target, ()):
            raise refusal(f"a cast of {source} to {target}", _HINTS.get(source))
    elif target != TIME or source != DATE:
        # Both engines compare a time with a text in quotes.
        is_literal = _is_comparison(parent) and source == TEXT and value["type"] == "VALUE_CONSTANT"
        if not (is_literal and target in (TIME, DATE)) and not (_name(parent) == "||" and _type(value) in _JOINED):
            raise refusal(f"{source} in place of {target}", _HINTS.get(source, _CONVERT))


def _check_sum(name: str, kinds: list[str]) -> None:
    known = [kind for kind in kinds if kind != NULL]
    if set(known) - {NUMBER} and known not in ([TIME, INTERVAL], [TIME, TIME]):
        raise refusal(f"{' '.join((*kinds[:-1], name, *kinds[-1:]))}", "subtract unix_millis(TIME) of both times")


def _is_constant(node: Node) -> bool:
    return node["type"] == "VALUE_CONSTANT" or (_name(node) == "__cast" and _is_constant(node["children"][0]))


def _nodes(node: Any, parent: Node) -> Iterator[tuple[Node, Node]]:
    """Yield each operator and expression of a plan with the one around it."""
    if isinstance(node, Mapping):
        yield node, parent
        for inner in node.values():
            yield from _nodes(inner, node)
    elif isinstance(node, list):
        for inner in node:
            yield from _nodes(inner, parent)


def _ordered(node: Node) -> Iterator[Node]:
    """Yield the values that a node orders, compares or counts by their difference."""
    if _is_comparison(node) or _name(node) in _ORDERING or node.get("aggregate_type") == "DISTINCT":
        yield from node["children"]
    for key in _ORDERED_IN:
        for one in node.get(key, ()):
            yield from [one[side] for side in ("expression", "left", "right") if side in one] or [one]


def _is_comparison(node: Node) -> bool:
    return str(node.get("type")).startswith("COMPARE_")


def _is_condition(node: Node, parent: Node) -> bool:
    """Return whether a value decides over rows or a case."""
    return (
        node in [parent.get(key) for key in ("when_expr", "filter", "condition")]
        or parent.get("type") == "LOGICAL_FILTER"
    )


def _name(node: Node) -> str:
    if "expression_class" not in node:
        return ""
    called = node.get("qname")
    return str(called["path"][-1] if called else node["type"])


def _kind(node: Node) -> str:
    return _KINDS.get(_type(node), NUMBER)


def _type(node: Node) -> str:
    found = node.get("return_type") or node.get("value", {}).get("type")
    return str(found["id"]) if found else "BOOLEAN"
