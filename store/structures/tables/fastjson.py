"""Reads and writes Fastjson's text: JSON with unquoted integer keys in maps.

    {
    →"offsetTable":{"T@G":{0:7,1:9
    →→}
    →}
    }

As in Fastjson, reading also accepts keys without quotes, single quotes, extra commas, comments, and numbers with a
suffix. Written form: TAB indentation, no blank after a colon, no newline at the end, non-ASCII raw. A map with integer
keys has all entries on the line of its opening brace. Sets and arrays stay on one line.

Source: JSON.toJSONString(object, true) of Fastjson 1.2.69 (4.9.8) and 1.2.83 (5.3.3).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

Json = dict[str, "Json"] | dict[int, "Json"] | list["Json"] | str | int | float | bool | None

_TEXT_OR_BARE_KEY = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{,]\s*-?\d+\s*:')
_SURROGATE = re.compile(r"\\ud[89a-f]", re.IGNORECASE)
_BARE_KEY = re.compile(r"([{,]\s*)(-?\d+)(\s*:)")
_TOKEN = re.compile(
    r"""(?P<text>"[^"\\]*(?:\\.[^"\\]*)*")|(?P<single>'[^'\\]*(?:\\.[^'\\]*)*')|(?P<space>\s+|/\*.*?\*/|//[^\n]*)"""
    r"""|(?P<key>-?\d+(?=\s*:)|[^\W\d][\w$]*(?=\s*:))|(?P<number>-?\d[\d.]*(?:[eE][+-]?\d+)?)[LSBFD]?|(?P<other>\w+|.)""",
    re.DOTALL,
)


def parse_fastjson(text: str) -> Json:
    """Read a document in any form that Fastjson reads; every key of the result is text.

    Raises ValueError for text that Fastjson refuses too: truncated, followed by other bytes, or not JSON.
    """
    try:
        return _parse(text)
    except RecursionError as error:
        raise ValueError("the document is nested too deeply") from error


def _parse(text: str) -> Json:
    try:
        return _loads(_TEXT_OR_BARE_KEY.sub(_quote_key, text))
    except ValueError as error:
        lenient = "".join(_plain_tokens(text))
        try:
            return _loads(lenient)
        except ValueError:
            raise error from None


def _loads(text: str) -> Json:
    parsed: Json = json.loads(text, strict=False)
    if _SURROGATE.search(text):
        # A lone surrogate: Java writes it as "?" in files and in file names.
        parsed = json.loads(json.dumps(parsed, ensure_ascii=False).encode("utf-8", "replace"))
    return parsed


def _plain_tokens(text: str) -> Iterator[str]:
    """Yield the tokens of a document written by hand, converted to plain JSON."""
    last, is_comma_due = "", False
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup, match[match.lastgroup or "other"]
        if kind == "space":
            continue
        if token == ",":
            is_comma_due = last not in ("", "{", "[", ":")
            continue
        if is_comma_due and token not in ("}", "]"):
            yield ","
        last, is_comma_due = token, False
        yield _quoted(token) if kind in ("key", "single") else token


def _quoted(token: str) -> str:
    inner = token[1:-1] if token.startswith("'") else token
    return '"' + re.sub(r'\\.|"', lambda one: {"\\'": "'", '"': '\\"'}.get(one[0], one[0]), inner) + '"'


def write_fastjson(value: Json) -> str:
    """Write a document as a broker does. Keys keep their order; int keys are written without quotes."""
    return _write(value, 0)


def member(value: Json, name: str) -> Json:
    """Return a member of an object; None if it is missing or `value` is no object."""
    return members(value).get(name)


def members(value: Json) -> dict[str, Json]:
    """Return the members of an object with keys as text; empty if `value` is no object."""
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def _quote_key(match: re.Match[str]) -> str:
    text = match.group()
    return text if text.startswith('"') else _BARE_KEY.sub(r'\1"\2"\3', text)


def _write(value: Json, depth: int) -> str:
    if not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    inner, outer = "\n" + "\t" * (depth + 1), "\n" + "\t" * depth
    entries = [f"{_key(key)}:{_write(item, depth + 1)}" for key, item in value.items()]
    if all(isinstance(key, int) for key in value):
        return "{" + ",".join(entries) + outer + "}"
    return "{" + inner + ("," + inner).join(entries) + outer + "}"


def _key(key: str | int) -> str:
    return str(key) if isinstance(key, int) else json.dumps(key, ensure_ascii=False)
