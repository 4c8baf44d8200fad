"""The log of a run: its lines in a file and on stderr, and that it ends."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest

from rmqctl.log import RunLog


def texts(lines: str) -> list[str]:
    """The lines without date and time."""
    return [line.split(" ", 2)[2] for line in lines.splitlines() if line[:4].isdigit()]


def test_lines_of_tool_and_engine_are_in_the_file_and_on_stderr_but_for_what_was_said(tmp_path: Path) -> None:
    stderr = io.StringIO()
    log = RunLog(tmp_path / "log", stderr)
    log.write("INFO", "a\x1bb\n2026 x y forged")
    log.write("WARNING", "said", is_said=True)
    logging.getLogger("store.files").debug("opened %s", "f")
    log.close()
    logging.getLogger("rmqctl").error("after the end")
    expected = ["INFO a\\x1bb\\n2026 x y forged", "WARNING said", "DEBUG opened f"]
    assert texts((tmp_path / "log").read_text()) == expected
    assert texts(stderr.getvalue()) == [expected[0], expected[2]]


def test_a_traceback_follows_its_line(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log", None)
    log.write("ERROR", "failed", error=ValueError("x\x1b"))
    log.close()
    assert (tmp_path / "log").read_text().splitlines()[1:] == ["ValueError: x\\x1b"]


@pytest.mark.parametrize("name", ["rmqctl", "store"])
def test_a_log_is_of_its_run_alone(name: str, tmp_path: Path) -> None:
    logger, before = logging.getLogger(name), list(logging.getLogger(name).handlers)
    log = RunLog(tmp_path / "log", io.StringIO())
    own = [one for one in logger.handlers if one not in before]
    assert (len(own), logger.propagate, logger.level) == (2, False, logging.DEBUG)
    log.close()
    assert (logger.handlers, [getattr(one, "stream", None) for one in own][:1]) == (before, [None])
