"""Every command on five stores: on a terminal of 80 x 24, and in a pipe."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqctl.app import main
from rmqctl.changing import totals_of
from rmqctl.environment import Environment
from rmqctl.exit_codes import FINDINGS, NOT_READABLE, OK
from rmqctl.layout import fold_words
from rmqctl.output import Format
from store import PlannedAction
from tests.cli.running import NOW_MS, rmqctl
from tests.support.command_lines import LINES, REFUSED, check_table, lines_of_tables, lists_in, words_of
from tests.support.five_stores import five, fivefive
from tests.support.golden import copy_store, golden
from tests.support.quickly import one_of

STORES = {"sound": "normal", "crashed": "aborted", "damaged": "corrupt-mid", "of 5.3": "normal5", "empty": None}
WALKED = [path for path in LINES if path not in (*REFUSED, "flush-bench", "put")]
WITHOUT_VERDICT = ("schema",)
ON_ONE_SCREEN = ("info", "doctor", "simulate", *(path for path in WALKED if "--dry-run" in LINES[path]))
TORN_ID = re.compile(r"(?<![0-9A-F])(?=\d*[A-F])[0-9A-F]{17,31}(?![0-9A-F])")


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("screens") / "store"
    name = STORES[request.param]
    if name is None:
        root.mkdir()
    else:
        copy_store(golden(name).store, root)
    return root


@pytest.mark.parametrize(("store", "path"), one_of(13, STORES, WALKED), indirect=["store"])
def test_a_screen_holds_the_verdict_and_a_pipe_each_row_on_one_line(path: str, store: Path, tmp_path: Path) -> None:
    forms = (Format.TABLE, Format.PLAIN, Format.JSON)
    screen, pipe, document = (
        rmqctl(*words_of(path, store, tmp_path, form), terminal=form is Format.TABLE) for form in forms
    )
    assert {screen.code, pipe.code, document.code} <= {OK, FINDINGS, NOT_READABLE}, screen.err
    assert screen.code == pipe.code == document.code
    assert (pipe.out == "") == (screen.code == NOT_READABLE), "no output and no error"
    if not pipe.out:
        assert pipe.err.count("\n") == 1
        assert " ".join(screen.err.split()) == " ".join(pipe.err.split())
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


@pytest.mark.turns(3)
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


LONG_PLAN = "would change the store in 36 steps (remove 25 files, 178.9 KiB; patch 1 file, 8"


class Screen(io.StringIO):
    """One terminal for both streams."""

    def isatty(self) -> bool:
        return True


def shown(*words: str) -> str:
    """What a terminal of 80 x 24 shows of a command, of both streams in their order."""
    screen = Screen()
    main(["--no-progress", *words], Environment(io.BytesIO(), screen, screen, {"NO_COLOR": "1"}, lambda: NOW_MS, 80))
    return screen.getvalue()


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("command", "first", "last"),
    [
        ("lag", "no consumer group has an offset", "counts as never consumed"),
        (
            "simulate",
            "a 4.9 broker starts and loses 250 messages, 249 of them intact past the end",
            "takes it back)",
        ),
        ("check", "1 finding in 256.0 KiB of the log", "past the offset; undo takes it back)"),
        (
            "recover --dry-run",
            "would change the store in 36 steps (remove 25 files, 178.9 KiB; patch 1 file, 8",
            "starts",
        ),
    ],
)
def test_notes_follow_the_verdict_and_leave_it_on_the_screen(command: str, first: str, last: str) -> None:
    lines = shown("--store", str(golden("corrupt-mid").store), *command.split()).splitlines()
    assert lines[0] == first
    assert lines[-1].endswith(last)
    assert len(lines) <= 23


@pytest.mark.parametrize(("unpack", "name"), [(five, "rocksdb-aborted"), (fivefive, "index-killed")])
def test_info_has_22_lines_and_leaves_structures_beside_problems_to_wide(
    unpack: Callable[[str], Path], name: str
) -> None:
    lines = shown("--quiet", "--store", str(unpack(name) / "store"), "info").splitlines()
    assert (len(lines) <= 22, lines[-1]) == (True, "not shown: structures (--wide)")


def test_a_list_longer_than_the_screen_ends_with_its_verdict() -> None:
    text = shown("--store", str(golden("no-derived").store), "check")
    verdict = "47 findings in 256.0 KiB of the log"
    before, _, after = text.removeprefix(verdict).partition(f"\n\n{verdict}\n\n")
    assert "not shown: file (--wide)" in before.splitlines()[-1]
    assert re.findall(r"^step (\d):\srmqctl --store \S+ (\S+)", after, re.MULTILINE) == [
        ("1", "simulate"), ("2", "recover"), ("3", "rebuild"), ("4", "rebuild")
    ]  # fmt: skip
    assert "run `rmqctl" not in after, "the plan names the command already"


def test_a_note_is_folded_between_words_and_its_command_is_whole() -> None:
    store = "/data/broker-a/with/a/longer/name/store"
    note = f"step 1: rmqctl --store {store} salvage --to NEWSTORE (reads the whole log, writes a second store)"
    assert fold_words(note, 60).split("\n") == [
        f"step 1: rmqctl --store {store} salvage --to NEWSTORE",
        "(reads the whole log, writes a second store)",
    ]
    assert fold_words("rmqctl: /a/path/of/a/file: it is damaged", 26) == "rmqctl: /a/path/of/a/file:\nit is damaged"


def test_a_sound_store_has_no_row_of_losses_and_no_stale_records() -> None:
    assert "losses" not in shown("--store", str(golden("normal").store), "simulate").splitlines()
    assert shown("--store", str(golden("normal").store), "stale").splitlines()[0] == "no stale records"


def test_doctor_says_the_worst_in_words_and_names_a_command_once() -> None:
    lines = shown("--store", str(golden("no-derived").store), "doctor").splitlines()
    assert lines[0] == "something is wrong: records have keys and there is no index file; 5 findings"
    assert [line.split()[-2:] for line in lines if "rebuild" in line] == [
        ["rebuild", "--index"], ["rebuild", "--queues"]
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line", ["recover", "truncate-dirty --offset 70000", "clean-expired --force --reserved-hours 0"]
)
def test_a_plan_shows_the_queues_that_lose_most_before_its_first_steps(line: str) -> None:
    lines = shown("--store", str(golden("corrupt-mid").store), *line.split(), "--dry-run").splitlines()
    assert len(lines) <= 23
    titles = [text.split(",")[0] for text in lines if text.rstrip().endswith(" (--wide)") and " of " in text]
    assert titles[:2] == ["lost", "actions"]
    worst = [text.split() for text in lines[: lines.index("", 5)] if text.startswith(("Topic", "topic_C-3"))]
    assert len(worst) >= 2
    assert (worst[0][0], min(int(row[2]) for row in worst) >= 20) == ("TopicA", True)
