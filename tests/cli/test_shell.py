"""The shell of sql: which lines are a query, the words with a dot, failures, completion and history."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rmqctl.exit_codes import OK, USAGE
from rmqctl.shell import HELP, _command, _history_file, _keyboard, _queries, complete, completions, run_shell
from store.errors import BadRequest
from store.query.tables import TABLES
from tests.support.sessions import said, session


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("", []),
        ("select 1;", ["select 1"]),
        ("select 1;\n", ["select 1"]),
        ("select 1; \nselect 2", ["select 1", "select 2"]),
        ("select\n1\n\nselect 2;", ["select\n1", "select 2"]),
        ("\n\nselect 1;\n\n", ["select 1"]),
        ("  .tables \nselect 1;;", [".tables", "select 1"]),
        ("select 1\n.5;", ["select 1\n.5"]),
    ],
)
def test_a_query_ends_with_a_semicolon_or_an_empty_line(text: str, queries: list[str]) -> None:
    assert list(_queries(session(stdin=text.encode()), is_typed=False)) == queries


def test_an_interrupt_drops_the_lines_of_a_query_and_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[Any] = ["select 1", KeyboardInterrupt(), "select 2;", None]
    prompts: list[str] = []

    def read(_: object, prompt: str, *, is_typed: bool) -> str | None:
        prompts.append(prompt)
        line = lines.pop(0)
        if isinstance(line, BaseException):
            raise line
        return cast("str | None", line)

    monkeypatch.setattr("rmqctl.shell._read_line", read)
    one = session()
    assert list(_queries(one, is_typed=True)) == ["select 2"]
    assert (prompts, said(one)) == (["sql> ", "...> ", "sql> ", "sql> "], "\n")


def run(text: str) -> tuple[int, list[str], str]:
    one, asked = session(stdin=text.encode()), []

    def query(text: str, limit: int) -> tuple[list[str], list[dict[str, int]]]:
        asked.append(text)
        if "bad" in text:
            raise BadRequest("no such query")
        if "break" in text:
            raise KeyboardInterrupt
        return ["n"], [{"n": 1}]

    code = run_shell(one, cast(Any, SimpleNamespace(query=query)), 5)
    return code, asked, said(one)


@pytest.mark.parametrize(
    ("text", "code", "asked", "failures"),
    [
        ("select 1;", OK, ["select 1"], []),
        ("bad;\nselect 1;", USAGE, ["bad", "select 1"], ["rmqctl: no such query"]),
        ("break;\nselect 1;", USAGE, ["break", "select 1"], ["rmqctl: interrupted"]),
        ("select 1;\n.quit\nbad;", OK, ["select 1"], []),
        (".tables\n.help\n", OK, [], []),
    ],
)
def test_a_query_that_fails_ends_the_run_with_a_usage_error_and_not_the_shell(
    text: str, code: int, asked: list[str], failures: list[str]
) -> None:
    assert run(text) == (code, asked, "".join(f"{line}\n" for line in [HELP, *failures]))


def rows(text: str) -> Any:
    result = _command(text)
    return result.tables[0].rows if result.tables else result.facts


def test_words_with_a_dot_are_answered() -> None:
    columns = [
        {"table": table, "column": name, "type": kind}
        for table, kinds in TABLES.items()
        for name, kind in kinds.items()
    ]
    assert rows(".tables") == [{"table": name, "columns": len(kinds)} for name, kinds in TABLES.items()]
    assert rows(".schema") == columns
    assert rows(".schema index") == [row for row in columns if row["table"] == "index"]
    assert [rows(text) for text in (".help", ".schema nothing", ".schema index nothing")] == [{"help": HELP}] * 3


def test_words_are_completed_in_any_case_and_once() -> None:
    assert completions("queue_o") == ["queue_offset"]
    assert completions("SEGM") == ["segments"]
    assert completions("is n") == ["is null", "is not null"]
    assert completions(".") == [".tables", ".schema", ".help", ".quit"]
    assert [complete("is n", number) for number in range(3)] == ["is null", "is not null", None]


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"XDG_STATE_HOME": "/state"}, Path("/state/rmqctl/sql_history")),
        ({}, Path("~/.local/state/rmqctl/sql_history").expanduser()),
        ({"XDG_STATE_HOME": ""}, Path("~/.local/state/rmqctl/sql_history").expanduser()),
    ],
)
def test_the_history_is_in_the_folder_of_states(variables: dict[str, str], place: Path) -> None:
    assert _history_file(session(**variables)) == place


def test_typed_lines_end_up_in_a_history_whose_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, completers = list[tuple[str, Path]](), list[object]()
    module = SimpleNamespace(
        read_history_file=lambda path: kept.append(("read", path)),
        write_history_file=lambda path: kept.append(("written", path)),
        set_history_length=lambda count: kept.append(("kept", count)),
        set_completer=completers.append,
        set_completer_delims=completers.append,
        parse_and_bind=completers.append,
    )
    monkeypatch.setitem(sys.modules, "readline", cast(Any, module))
    one = session(stdout=True, stderr=True, XDG_STATE_HOME=str(tmp_path / "state"))
    monkeypatch.setattr(type(one.environment), "can_ask", True)
    path = tmp_path / "state/rmqctl/sql_history"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for _ in range(2):
            with _keyboard(one) as is_typed:
                assert (is_typed, signal.getsignal(signal.SIGINT)) == (True, signal.default_int_handler)
            assert (signal.getsignal(signal.SIGINT), path.parent.is_dir()) == (signal.SIG_IGN, True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert kept == [("kept", 1000), ("read", path), ("written", path)] * 2
    assert completers == [complete, " \t\n,()=<>+-*/%.'\"`", "tab: complete"] * 2
