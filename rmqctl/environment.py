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
    """Columns of the terminal; None reads them from it."""

    @classmethod
    def real(cls) -> Environment:
        """Return the process's own environment.

        stdout escapes characters that its encoding lacks, so that no output breaks off.
        """
        _open_closed_streams()
        reconfigure = getattr(sys.stdout, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
        return cls(sys.stdin.buffer, sys.stdout, sys.stderr, os.environ, lambda: time.time_ns() // 1_000_000)

    def screen(self) -> tuple[int, int]:
        """Return the terminal's columns and lines; 24 lines if `width` is set."""
        return (self.width, 24) if self.width else shutil.get_terminal_size()

    @property
    def can_ask(self) -> bool:
        """Whether stdin and stderr are terminals, so that a question can be answered."""
        return self.stdin.isatty() and self.stderr.isatty()


def use_utf8_names() -> None:
    """Start the process again in UTF-8 mode if Python decodes file names as ASCII.

    Topics are folder names in UTF-8 in any locale. The streams keep their encoding.
    """
    if sys.getfilesystemencoding() == "ascii":
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        variables = {**os.environ, "PYTHONIOENCODING": os.environ.get("PYTHONIOENCODING", encoding)}
        os.execve(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]], variables)


def _open_closed_streams() -> None:
    """Open /dev/null in place of a closed standard stream.

    Else the next file would get the stream's number, and a library's output would go into a file of the store.
    For stdout it is opened for reading: writing a result is then an error, as on a full device.
    """
    for name, mode, flag in (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, flag), mode, encoding="utf-8"))  # noqa: SIM115, PTH123
