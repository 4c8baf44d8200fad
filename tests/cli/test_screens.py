"""Every command on five stores: on a terminal of 80 x 24, and in a pipe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqctl.changing import totals_of
from rmqctl.exit_codes import FINDINGS, NOT_READABLE, OK
from rmqctl.output import Format
from store import PlannedAction
from tests.cli.running import rmqctl
from tests.cli.test_every_command import LINES, REFUSED, check_table, lines_of_tables, lists_in, words_of
from tests.support.golden import copy_store, golden

STORES = {"sound": "normal", "crashed": "aborted", "damaged": "corrupt-mid", "of 5.3": "normal5", "empty": None}
WALKED = [path for path in LINES if path not in (*REFUSED, "flush-bench", "put")]
WITHOUT_VERDICT = ("schema",)
ON_ONE_SCREEN = ("info", "doctor", "simulate", *(path for path in WALKED if "--dry-run" in LINES[path]))
TORN_ID = re.compile(r"(?<![0-9A-F])(?=\d*[A-F])[0-9A-F]{17,31}(?![0-9A-F])")


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("screens") / "store"
    name = STORES[request.param]
    if name is None:
        root.mkdir()
    else:
        copy_store(golden(name).store, root)
    return root


@pytest.mark.parametrize("path", WALKED)
def test_a_screen_holds_the_verdict_and_a_pipe_each_row_on_one_line(path: str, store: Path, tmp_path: Path) -> None:
    forms = (Format.TABLE, Format.PLAIN, Format.JSON)
    screen, pipe, document = (
        rmqctl(*words_of(path, store, tmp_path, form), terminal=form is Format.TABLE) for form in forms
    )
    assert {screen.code, pipe.code, document.code} <= {OK, FINDINGS, NOT_READABLE}, screen.err
    assert screen.code == pipe.code == document.code
    assert (pipe.out == "") == (screen.code == NOT_READABLE), "no output and no error"
    if not pipe.out:
        assert screen.err.count("\n") == 1
        return
    check_table(screen.out)
    assert not TORN_ID.findall(screen.out)
    assert set(lines_of_tables(pipe.out)) <= set(lists_in(document.json))
    if path not in WITHOUT_VERDICT:
        verdict, *after = pipe.out.splitlines()
        assert (verdict, after[0]) == (" ".join(verdict.split()), "")
        assert " ".join(screen.out.split()).startswith(verdict)
    if path in ON_ONE_SCREEN:
        assert len(screen.out.splitlines()) <= 22, screen.out


def test_a_pipe_is_as_wide_as_its_rows_whatever_the_variables_say(tmp_path: Path) -> None:
    copy_store(golden("normal").store, tmp_path / "store")
    for path in ("find", "usage", "dump", "sql"):
        words = words_of(path, tmp_path / "store", tmp_path, Format.PLAIN)
        outs = {rmqctl(*words, variables={"COLUMNS": columns}, width=int(columns)).out for columns in ("40", "200")}
        assert len(outs) == 1


@pytest.mark.parametrize(
    ("steps", "totals"),
    [
        (10, ""),
        (11, " (remove 1 file, 0 B; write 10 files, 550 B)"),
        (12, " (remove 1 file, 0 B; write 11 files, 660 B)"),
    ],
)
def test_a_plan_longer_than_a_screen_begins_with_its_totals(steps: int, totals: str) -> None:
    rows = [PlannedAction(action="write", file=f"f{n}", size_bytes=10 * n, reason="") for n in range(steps)]
    rows[0]["action"] = "remove"
    assert totals_of(rows) == totals


def test_the_verdict_of_a_plan_has_its_totals_before_what_is_lost() -> None:
    run = rmqctl("rebuild", "--dry-run", store=golden("normal").store)
    steps = "would change the store in 47 steps (remove 2 files, 43.0 KiB; write 45 files, 59.8 KiB)"
    assert run.out.splitlines()[0] == f"{steps}; no message is lost"


def test_find_leaves_a_life_of_one_record_and_what_it_searched_to_wide() -> None:
    run = rmqctl("find", "order5", store=golden("normal").store, terminal=True)
    assert len(run.out.splitlines()) == 23, "the verdict stays on a screen of 24 lines"
    assert run.out.splitlines()[-1] == "not shown: position, life, searched (--wide)"
    wide = rmqctl("--wide", "find", "order5", store=golden("normal").store, terminal=True)
    titles = ["messages", "places", "life", "searched"]
    assert [line.strip() for line in wide.out.splitlines() if line.strip() in titles] == titles
