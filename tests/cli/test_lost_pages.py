"""A file that is shortened while a command uses its pages: an answer, a finding or an error, and no signal."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.support.shortened import Case, needs_handler, run_cases
from tests.support.stores import make_store

pytestmark = needs_handler

SIZES = {
    "mappedFileSizeCommitLog": 1 << 16,
    "mappedFileSizeConsumeQueue": 20 * 1024,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
}
LOG, LAST = "commitlog/00000000000000000000", "commitlog/00000000000000131072"
QUEUE = "consumequeue/T/0/00000000000000000000"
COMMANDS = {
    "check": ["check"],
    "get": ["get", "T", "--queue", "0", "--offset", "0", "--max", "900"],
    "salvage": ["salvage"],
    "recover --dry-run": ["recover", "--abnormal", "--dry-run"],
    "recover": ["recover", "--abnormal", "--yes"],
    "put": ["put", "T", "x"],
    "put, sync flush": ["put", "T", "x", "--set", "flushDiskType=SYNC_FLUSH"],
}
PLACES = [(path, keep) for path in (LOG, LAST, QUEUE) for keep in (0, 20_000)]
LOOKS = (1, 3)
ENDS = {
    "check": "1- 1- 15 15 -- --",
    "get": "55 05 55 05 55 00",
    "salvage": "55 51 55 51 55 00",
    "recover --dry-run": "0- 0- 55 00 55 00",
    "recover": "5- 0- 55 00 55 00",
    "put": "55 44 55 55 55 44",
    "put, sync flush": "55 44 55 55 55 44",
}
"""The exit codes at each of PLACES after each of LOOKS; - where nothing looks at the file so often."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("sound") / "store", 900, **SIZES)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_dies_over_a_file_that_is_shortened_under_it(command: str, store: Path, tmp_path: Path) -> None:
    words = tuple(COMMANDS[command])
    told = zip(product(PLACES, LOOKS), ENDS[command].replace(" ", ""), strict=True)
    codes = {Case(words, *place, look): int(code) for (place, look), code in told if code != "-"}
    for (case, code), end in zip(codes.items(), run_cases(store, tmp_path, list(codes)), strict=True):
        assert (end.code, "Traceback" in end.err) == (code, False), (case, end)
        if code >= 4:
            assert Path(case.path).name + (", offset " if code == 5 else "") in end.err, (case, end)


def one(store: Path, scratch: Path, command: str, path: str, keep: int, look: int = 1) -> tuple[int, str, str]:
    (end,) = run_cases(store, scratch, [Case(COMMANDS[command], path, keep, look)])
    return end.code, end.out, end.err


@pytest.mark.turns(4)
def test_pages_that_the_walk_loses_are_a_finding_of_check_with_file_and_range(store: Path, tmp_path: Path) -> None:
    code, out, _ = one(store, tmp_path, "check", LOG, 0)
    assert code == 1
    assert "bytes 0 to 65536" in " ".join(out.split())
    (end,) = run_cases(store, tmp_path, [Case(["--format", "json", "check"], LOG, 0)])
    assert "pages that can't be read" in end.out


@pytest.mark.turns(2)
@pytest.mark.parametrize("command", ["put", "put, sync flush"])
def test_a_put_into_a_lost_page_is_an_error_and_never_put_ok(command: str, store: Path, tmp_path: Path) -> None:
    code, out, err = one(store, tmp_path, command, LAST, 0)
    assert (code, "PUT_OK" in out) == (5, False)
    assert f"{Path(LAST).name}, offset " in err


@pytest.mark.turns(3)
def test_a_change_that_was_planned_with_a_lost_page_is_not_made(store: Path, tmp_path: Path) -> None:
    code, _, err = one(store, tmp_path, "recover", LOG, 0, 2)
    assert code == 5
    assert "were lost while they were in use" in err
