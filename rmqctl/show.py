"""Single values for people: times, byte counts, and texts that cannot drive a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from rmqctl.times import show_time

CELL_LIMIT = 200
"""Characters of one cell on a terminal; programs get the whole text."""
WIDE_CELL_LIMIT = 4096
"""Characters of one cell in pipes and files, and with --wide: one more would be padding in each other row."""
_SENTENCES = frozenset({"detail", "start_reason", "warnings"})
"""Names of values that the engine words; other texts are a store's own, and shown as they are."""
_DURATIONS = frozenset({"delay_ms", "overdue_ms"})
"""Names of milliseconds that are no moment."""
_MOMENT = re.compile(r"\b(\d{12,}) ms\b")
"""Epoch milliseconds inside a sentence, from 1973 on; sentences give long durations in seconds."""


class TimeForm(StrEnum):
    """Values of --time."""

    LOCAL = "local"
    UTC = "utc"
    MS = "ms"


def cell_limit(width: int | None) -> int:
    """Return the characters of one cell on a terminal of `width` columns, or without a limit of the line."""
    return WIDE_CELL_LIMIT if width is None else CELL_LIMIT


def show_value(name: str, value: object, times: TimeForm = TimeForm.UTC, limit: int = CELL_LIMIT) -> str:
    """Return one value as text of at most `limit` characters; the last word of its JSON name is its unit."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return _show_number(name, value, times)
    if isinstance(value, Mapping):
        items = (f"{key} {show_value(key, item, times, limit)}" for key, item in value.items())
        return printable(", ".join(items), limit) or "-"
    if isinstance(value, (list, tuple)):
        kind = name if name in _SENTENCES else ""
        return printable(", ".join(show_value(kind, item, times, limit) for item in value), limit) or "-"
    return printable(show_sentence(str(value), times) if name in _SENTENCES else str(value), limit)


def show_sentence(text: str, times: TimeForm) -> str:
    """Return a sentence of the engine with its moments in the form of `times`."""
    return _MOMENT.sub(lambda found: _show_time(int(found[1]), times, " ms"), text)


def _show_number(name: str, value: float, times: TimeForm) -> str:
    if name in _DURATIONS:
        return f"{value} ms"
    if name.endswith("_ms"):
        return _show_time(int(value), times)
    if name.endswith("bytes_per_s"):
        return f"{show_bytes(value)}/s"
    if name.endswith("bytes"):
        return show_bytes(value)
    if name.endswith("_percent"):
        return f"{value:.2f} %"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _show_time(time_ms: int, times: TimeForm, unit: str = "") -> str:
    return f"{time_ms}{unit}" if times is TimeForm.MS else show_time(time_ms, local=times is TimeForm.LOCAL)


def is_number(value: object) -> bool:
    """Return whether a value is a number, not a truth value."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def are_numbers(values: Sequence[object]) -> bool:
    """Return whether a column holds numbers, and no text that may need folding."""
    return any(map(is_number, values)) and not any(isinstance(value, str) for value in values)


def show_bytes(size: float) -> str:
    """Return bytes with a binary unit; the exact number up to 9,999."""
    if abs(size) < 10_000:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1024
        if abs(size) < 1000 or unit == "TiB":
            break
    return f"{size:.1f} {unit}"


_ADJECTIVES = {"unsound", "damaged", "intact", "unreadable", "set_aside", "added", "overdue"}
_PLURALS = {"entry": "entries", "flush": "flushes", "half": "halves", "index": "indexes"}


def words(name: str) -> str:
    """Return a JSON name for people: without its unit, as the value has it; message_count is messages."""
    if name.endswith("_count"):
        noun = name.removesuffix("_count")
        name = noun if noun in _ADJECTIVES else _PLURALS.get(noun, f"{noun}s")
    for unit in ("_ms", "_bytes", "_bytes_per_s", "_percent"):
        name = name.removesuffix(unit)
    return name.replace("_", " ")


def count(number: int, noun: str) -> str:
    """Return `1 message`, `1,234 messages`, as the engine writes it."""
    from store.formats import amount

    return amount(number, noun)


def count_is(number: int, noun: str) -> str:
    """Return `1 message is`, `1,234 messages are`."""
    from store.formats import amount_is

    return amount_is(number, noun)


def list_some(values: Sequence[object], most: int = 8) -> str:
    """Return the first `most` values with commas, and an ellipsis for the others."""
    return ", ".join(map(str, values[:most])) + (", …" if len(values) > most else "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the nearest of the known names as the end of a sentence; empty if none is near."""
    from difflib import get_close_matches

    by_folded = {one.casefold(): one for one in known}
    near = next(iter(get_close_matches(name.casefold(), by_folded)), None)
    return f"; did you mean {by_folded[near]!r}?" if near is not None else ""


def printable(text: str, limit: int = CELL_LIMIT) -> str:
    """Return `text` on one line, with control characters escaped, and shortened to `limit`."""
    shown = escape_controls(text[:limit])
    return shown if len(text) <= limit else shown[: limit - 1] + "…"


def escape_controls(text: str, keep: str = "") -> str:
    """Return `text` with unprintable characters escaped, except those in `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


# Valid in JSON, but a terminal may obey them or no encoding hold them: DEL and C1, marks of direction, surrogates.
_UNSAFE = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_in_json(text: str) -> str:
    """Return JSON with characters of _UNSAFE escaped; JSON itself escapes those below U+0020."""
    if (text.isascii() and "\x7f" not in text) or _UNSAFE.search(text) is None:
        return text
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
