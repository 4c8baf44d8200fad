"""Every command on five stores: on a terminal of 80 x 24, and in a pipe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqctl.exit_codes import FINDINGS, NOT_READABLE, OK
from rmqctl.output import Format
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
