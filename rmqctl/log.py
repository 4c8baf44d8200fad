"""The log of a run: files opened, decisions and changes, with times, for --log FILE and --verbose.

This module, and with it logging, is imported only for these options. Control characters are escaped: a name in a
store can neither control a terminal nor forge a line.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TextIO

from rmqctl.show import escape_controls

LOGGER = logging.getLogger("rmqctl")
ENGINE_LOGGER = logging.getLogger("store")
SAID = {"is_said": True}
"""`extra` of a line that was written to stderr as well."""
_LINE = "%(asctime)s %(levelname)s %(message)s"


class _Escaped(logging.Formatter):
    """Formats records with control characters escaped; the lines of a traceback stay lines."""

    def format(self, record: logging.LogRecord) -> str:
        record.msg, record.args = escape_controls(record.getMessage()), None
        return escape_controls(super().format(record), keep="\n")


class RunLog:
    """The log of one run, to a file and stderr; loggers have its handlers until close()."""

    def __init__(self, file: Path | None, stderr: TextIO | None) -> None:
        self._handlers: list[logging.Handler] = []
        if file is not None:
            self._add(logging.FileHandler(file, encoding="utf-8", errors="backslashreplace"))
        if stderr is not None:
            handler = logging.StreamHandler(stderr)
            handler.addFilter(lambda record: not getattr(record, "is_said", False))
            self._add(handler)

    def _add(self, handler: logging.Handler) -> None:
        handler.setFormatter(_Escaped(_LINE))
        self._handlers.append(handler)
        for logger in (LOGGER, ENGINE_LOGGER):
            logger.setLevel(logging.DEBUG)
            logger.propagate = False
            logger.addHandler(handler)

    def write(self, level: str, text: str, *, is_said: bool = False, error: BaseException | None = None) -> None:
        """Write one line; with `error` its traceback follows."""
        number = logging.getLevelNamesMapping()[level]
        LOGGER.log(number, "%s", text, extra=SAID if is_said else None, exc_info=error)

    def close(self) -> None:
        for handler in self._handlers:
            for logger in (LOGGER, ENGINE_LOGGER):
                logger.removeHandler(handler)
            handler.close()
