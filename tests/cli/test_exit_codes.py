"""The exit code of each kind of end, as scripts compare it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rmqctl.commands import COMMANDS
from rmqctl.exit_codes import DECLINED, FINDINGS, OK, USAGE, exit_code_of
from store.errors import BadRequest, DamagedFile, NotAStore, StoreClosed, StoreIOError, StoreLocked


def test_the_codes_of_a_command_that_ended_by_itself() -> None:
    assert (OK, FINDINGS, DECLINED) == (0, 1, 6)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadRequest("x"), 2),
        (StoreLocked("x"), 3),
        (NotAStore("x"), 4),
        (DamagedFile("x"), 4),
        (StoreIOError("x"), 5),
        (StoreIOError.from_os(OSError(errno.ENOENT, "x"), Path("f"), "x"), 4),
        (StoreIOError.from_os(OSError(errno.EIO, "x"), Path("f"), "x"), 5),
        (StoreClosed("x"), 5),
        (OSError(errno.ENOTDIR, "x"), 4),
        (OSError(errno.EIO, "x"), 5),
        (KeyboardInterrupt(), 130),
        (ValueError("x"), 70),
    ],
)
def test_an_error_has_the_code_of_its_class_and_a_missing_path_its_own(error: BaseException, code: int) -> None:
    assert exit_code_of(error) == code


def test_commands_have_meanings_of_their_own_for_findings_and_for_wrong_use_alone() -> None:
    found = {place.path: sorted(codes) for place in COMMANDS if (codes := place.exit_codes())}
    assert {tuple(codes): sorted(path for path in found if found[path] == codes) for codes in found.values()} == {
        (FINDINGS,): [
            "bundle", "check", "doctor", "dump", "filter show", "find", "get", "index-query", "info", "put", "replay",
            "report", "stale", "upgrade show",
        ],
        (USAGE,): ["filter unregister", "flush"],
        (FINDINGS, USAGE): ["filter register", "stats", "stop"],
    }  # fmt: skip
