"""Sessions of commands on streams in memory, and what they say."""

from __future__ import annotations

import io
from typing import Any, cast

from rmqctl.context import Session
from rmqctl.environment import Environment


class Terminal(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def session(
    *, stdout: bool = False, stderr: bool = False, stdin: bytes = b"", width: int = 40, **variables: str
) -> Session:
    streams = Terminal(stdout), Terminal(stderr)
    environment = Environment(io.BytesIO(stdin), *streams, variables, lambda: 1_700_000_000_000, width)
    return Session(environment, lambda words, environment: 0)


def give(one: Session, **options: Any) -> None:
    """Give options as the parser does."""
    given: dict[str, Any] = {
        "store": "./store", "broker_conf": None, "settings": None, "format": "auto", "wide": False, "color": "auto",
        "no_color": False, "time": "utc", "log": None, "scratch": None, "nice": False, "bwlimit": None, "cold": False,
        "remote_retries": None, "no_progress": False, "quiet": False, "verbose": False, **options,
    }  # fmt: skip
    one.take_options(cast(Any, given))


def said(one: Session) -> str:
    return cast(Terminal, one.environment.stderr).getvalue()
