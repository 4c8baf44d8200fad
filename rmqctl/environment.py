"""The process's surroundings: streams, terminal, variables and clock."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, TextIO


@dataclass(slots=True)
class Environment:
    """Streams, terminal, variables and clock of the process."""

    stdin: IO[bytes]
    stdout: TextIO
    stderr: TextIO
    variables: Mapping[str, str]
    clock_ms: Callable[[], int]
    width: int | None = None
    """Columns of the terminal; None asks it."""

    @classmethod
    def real(cls) -> Environment:
        """Return the process's own environment.

        Characters that stdout's encoding lacks are escaped, so that no output breaks off in the middle.
        """
        _open_closed_streams()
        reconfigure = getattr(sys.stdout, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
        return cls(sys.stdin.buffer, sys.stdout, sys.stderr, os.environ, lambda: time.time_ns() // 1_000_000)

    def screen(self) -> tuple[int, int]:
        """Return the terminal's columns and lines; 24 lines where the width is given."""
        return (self.width, 24) if self.width else shutil.get_terminal_size()

    @property
    def can_ask(self) -> bool:
        """Whether stdin and stderr are terminals, so that a question is read and answered."""
        return self.stdin.isatty() and self.stderr.isatty()


def use_utf8_names() -> None:
    """Start the process again in UTF-8 mode where Python takes file names for ASCII.

    Topics are names of folders, in UTF-8 whatever the locale is. The streams keep their encoding.
    """
    if sys.getfilesystemencoding() == "ascii":
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        variables = {**os.environ, "PYTHONIOENCODING": os.environ.get("PYTHONIOENCODING", encoding)}
        os.execve(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]], variables)


def _open_closed_streams() -> None:
    """Put /dev/null where the caller closed a standard stream.

    Else the next file that is opened gets its number, and a library's output to stdout goes into a store's file.
    Stdout's is opened for reading, so that a result that cannot be written is an error, as with a full device.
    """
    for name, mode, flag in (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, flag), mode, encoding="utf-8"))  # noqa: SIM115, PTH123
