"""Every code that the engine gives has advice, and the engine itself names no command and no option."""

from __future__ import annotations

import ast
import errno
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import store
from rmqctl import advice
from rmqctl.advice import commands_for
from rmqctl.commands import COMMANDS
from rmqctl.exit_codes import NOT_READABLE, USAGE
from rmqctl.hints import HINTS, describe
from store.errors import BadRequest, NotAStore, StoreIOError
from tests.cli.running import rmqctl
from tests.support.golden import copy_store, golden

MODULES = sorted(Path(store.__file__).parent.rglob("*.py"))
SOURCES = [path.read_text("utf-8") for path in MODULES]


def test_every_code_has_advice_and_all_advice_a_code() -> None:
    codes = {code for text in SOURCES for code in re.findall(r'"([a-z]+(?:-[a-z]+)+)"', text)}
    codes |= {code for text in SOURCES for code in re.findall(r'code="([a-z-]+)"', text)}
    assert {*HINTS, *advice.COMMANDS} <= codes
    given = {code for text in SOURCES for code in re.findall(r'code="([a-z-]+)"', text)}
    # This error says by itself what to install, for the library's users too.
    assert given - {"no-rocksdict"} <= {*HINTS, *advice.COMMANDS}


def test_every_command_of_the_advice_exists() -> None:
    named = [command for code in {*HINTS, *advice.COMMANDS} for command in commands_for(code, ("a", "b", 0))]
    paths = {command.path for command in COMMANDS}
    for text in named:
        assert {text.split()[0], " ".join(text.split()[:2])} & paths, text


def test_a_hint_names_what_the_error_is_about() -> None:
    error = BadRequest("it was interrupted", code="interrupted-change", subject=("2026-recover",))
    assert describe(error) == "it was interrupted; run `rmqctl undo 2026-recover` first"
    assert describe(BadRequest("no", hint="yes")) == "no; yes"
    assert describe(ValueError("other")) == "other"


def test_no_text_of_the_engine_names_a_command_or_an_option() -> None:
    """But for the name of a whole change, as `recover` in a manifest, which is data."""
    paths = "|".join(re.escape(command.path) for command in COMMANDS)
    advice = re.compile(rf"(?<![-\w])--[a-z]|rmqctl ({paths})\b|^({paths}) --")
    # Each alternative of `advice` holds one of the two.
    found = [
        f"{path.name}: {text}"
        for path, source in zip(MODULES, SOURCES, strict=True)
        if "--" in source or "rmqctl " in source
        for text in texts(source)
        if ("--" in text or "rmqctl " in text) and advice.search(text)
    ]
    assert found == []


def texts(source: str) -> Iterator[str]:
    """The string literals of a module that are no docstrings."""
    nodes = [*ast.walk(ast.parse(source))]
    docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node.value


@pytest.mark.parametrize(
    ("given", "meant"),
    [("store/commitlog", "store"), ("store/consumequeue/TopicA", "store"), ("", "store"), ("store/none", "store")],
)
@pytest.mark.parametrize("command", ["info", "check", "get"])
def test_a_folder_beside_the_store_names_the_store(given: str, meant: str, command: str, tmp_path: Path) -> None:
    copy_store(golden("normal").store, tmp_path / "store")
    run = rmqctl(command, *(["T"] if command == "get" else []), store=tmp_path / given)
    assert (run.code, f"did you mean {tmp_path / meant}?" in run.err) == (NOT_READABLE, True), run.err


@pytest.mark.parametrize(
    "words",
    [
        "--store '' info", "info --store ''", "sql --store '' 'select 1'", "--log '' info", "info --scratch ''",
        "salvage --to ''", "salvage ''", "undo ID --quarantine ''", "recover --yes --quarantine ''", "export --to ''",
        "report --html ''", "put T --input ''", "put T --body-file ''", "backup create ''", "backup list ''",
        "backup restore '' --to new", "diff '' other", "replay '' --to localhost:9876", "bundle ''",
    ],
)  # fmt: skip
def test_an_empty_text_is_no_path(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = rmqctl(*shlex.split(words))
    assert (run.code, run.out, "an empty path; name a folder or file (see rmqctl" in run.err) == (USAGE, "", True)
    assert list(tmp_path.iterdir()) == []


NOT_A_FOLDER = StoreIOError("cannot list the folder: not a directory", file="file/x/y", errno=errno.ENOTDIR)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (NotAStore("no", file="s/commitlog", hint="look"), "s/commitlog: no; did you mean HERE/s?"),
        (NotAStore("no", file="s/commitlog", code="no-store"), "s/commitlog: no; did you mean HERE/s?"),
        (NotAStore("no", file="s/consumequeue/T"), "s/consumequeue/T: no; did you mean HERE/s?"),
        (NotAStore("no", file="around"), "around: no; did you mean HERE/around/store?"),
        (NotAStore("no", file="b"), "b: no; did you mean backup:HERE/b?"),
        (NotAStore("no", file="only-log"), "only-log: no"),
        (NotAStore("no", file="only-backups"), "only-backups: no"),
        (NotAStore("no", file="s/commitlog", code="other"), "s/commitlog: no"),
        (BadRequest("no", file="s/commitlog"), "s/commitlog: no"),
        (NOT_A_FOLDER, "file: a file, where a folder is expected; name a folder"),
        (StoreIOError("no folder", file="file", errno=errno.EEXIST),
         "file: a file, where a folder is expected; name a folder"),
        (StoreIOError("no folder", file="s/queue/0", errno=errno.ENOTDIR),
         "s/queue: a file, where a folder is expected; move it away"),
        (StoreIOError("no folder", file="file", errno=errno.EIO), "file: no folder"),
        (StoreIOError("no folder", file="s/x", errno=errno.ENOTDIR), "s/x: no folder"),
        (StoreIOError("no folder", errno=errno.ENOTDIR), "no folder"),
        (StoreIOError("no", file="file", errno=errno.ENOTDIR), "file: no"),
        (StoreIOError("no", file="rmqctl-scratch-x/f"),
         "rmqctl-scratch-x/f: no; --scratch DIR names another folder for what is built"),
        (StoreIOError("no", file="rmqctl-scratch-x/f", code="other"), "rmqctl-scratch-x/f: no"),
        (BadRequest("no", file="rmqctl-scratch-x/f"), "rmqctl-scratch-x/f: no"),
    ],
)  # fmt: skip
def test_an_error_is_a_sentence_with_what_is_meant_instead(
    error: Exception, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (
        "s/commitlog",
        "around/store/commitlog",
        "b/backups",
        "b/log",
        "only-log/log",
        "only-backups/backups",
    ):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "s/queue").touch()
    monkeypatch.chdir(tmp_path)
    assert describe(error) == sentence.replace("HERE", str(tmp_path))
