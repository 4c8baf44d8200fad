"""Times on the command line: epoch ms, ISO 8601, or relative to now (-15m, -2h, -3d); shown as ISO."""

from __future__ import annotations

import re
from datetime import UTC, datetime

LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999; Python has no later dates."""
_ACCEPTED = "write epoch milliseconds, ISO 8601 (2026-11-21T04:00:00Z) or -15m, -2h, -3d"
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_RELATIVE = re.compile(r"([+-])(\d{1,20})(ms|[smhdw])", re.ASCII)
_EPOCH_MS = re.compile(r"\d{1,20}", re.ASCII)


def parse_time(text: str, now_ms: int) -> int:
    """Return `text` as epoch milliseconds; a time without a zone is local.

    Raise ValueError, with the accepted forms, for another text.
    """
    time_ms = _parse(text.strip(), now_ms)
    if not 0 <= time_ms <= LATEST_MS:
        raise ValueError(f"{text[:40]!r} is out of range: {_ACCEPTED}, between 1970 and 9999")
    return time_ms


def _parse(text: str, now_ms: int) -> int:
    if text == "now":
        return now_ms
    if relative := _RELATIVE.fullmatch(text):
        sign = -1 if relative[1] == "-" else 1
        return now_ms + sign * int(relative[2]) * _UNITS_MS[relative[3]]
    if _EPOCH_MS.fullmatch(text):
        return int(text)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text[:40]!r} is not a time; {_ACCEPTED}") from None


def show_time(time_ms: int, *, local: bool = False) -> str:
    """Return epoch milliseconds as ISO 8601, in UTC or the local zone.

    0 (never set) is a dash; a number outside of Python's dates stays a number.
    """
    if time_ms == 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(time_ms // 1000, UTC)
        moment = moment.astimezone() if local else moment
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    zone = moment.isoformat()[19:] if local else "Z"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}{zone}"
