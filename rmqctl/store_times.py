"""--since and --until: limits of store time, for commands that read messages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from rmqctl.context import Session
from rmqctl.times import LATEST_MS

Since = Annotated[str | None, typer.Option(metavar="TIME", help="Only messages stored at this time or later.")]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only messages stored at this time or earlier.")]
END_OF_TIME_MS = (1 << 63) - 1


def store_times(session: Session, since: str | None, until: str | None) -> tuple[int, int]:
    """Return the values of --since and --until in ms, all times without them."""
    since_ms = session.parse_time(since, "--since") if since is not None else 0
    until_ms = session.parse_time(until, "--until") if until is not None else END_OF_TIME_MS
    if since_ms > until_ms:
        raise typer.BadParameter("--since is later than --until")
    return since_ms, until_ms


def and_store_times(session: Session, where: str | None, since: str | None, until: str | None) -> str | None:
    """Return a condition on the table `messages` with the limits added; None if there is no condition."""
    since_ms, until_ms = store_times(session, since, until)
    limits = [
        f"store_timestamp {compared} timestamp '{_literal(time_ms)}'"
        for compared, time_ms, text in ((">=", since_ms, since), ("<=", until_ms, until))
        if text is not None
    ]
    return " and ".join([*([f"({where}\n)"] if where is not None else []), *limits]) or None


def _literal(time_ms: int) -> str:
    moment = datetime.fromtimestamp(min(time_ms, LATEST_MS) // 1000, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d}Z"
