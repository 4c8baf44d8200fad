"""Times on the command line: epoch milliseconds, ISO 8601, or relative to now (-15m, -2h, -3d); always shown as ISO."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_RELATIVE = re.compile(r"([+-])(\d+)(ms|[smhdw])")


def parse_time(text: str, now_ms: int) -> int:
    """`text` as epoch milliseconds. A time without a zone is local. ValueError says what is accepted."""
    text = text.strip()
    if text == "now":
        return now_ms
    if relative := _RELATIVE.fullmatch(text):
        sign = -1 if relative[1] == "-" else 1
        return now_ms + sign * int(relative[2]) * _UNITS_MS[relative[3]]
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{text!r} is not a time; write epoch milliseconds, ISO 8601 (2026-11-21T04:00:00Z) or -15m, -2h, -3d"
        ) from None


def show_time(time_ms: int) -> str:
    """Epoch milliseconds as ISO 8601 in UTC; 0 (never set) as a dash, a time out of range as the bare number."""
    if time_ms == 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"
