"""Every command in every format: on a terminal of 80 columns, piped, in an encoding without the letters, cut off."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rmqctl.app import main
from rmqctl.commands import COMMANDS
from rmqctl.environment import Environment
from rmqctl.exit_codes import FINDINGS, NOT_READABLE, OK, USAGE
from rmqctl.output import Format
from tests.cli.running import NOW_MS, Keyboard, Text, rmqctl
from tests.support.command_lines import LINES, REFUSED, STORE_IS_NAMED, check_table, lines_of_tables, lists_in, words_of
from tests.support.golden import copy_store, golden
from tests.support.processes import running
from tests.support.quickly import one_of

WITHOUT_ROWS = (
    "doctor", "stale", "checkpoint rewrite", "check", "lag", "rebuild delay-offsets", "timer show",
    "transaction show", "rebuild compaction", "rebuild message-database", "rebuild timer", "upgrade show",
    "config check", "config show", "quarantine list", "filter show", "backup verify",
)  # fmt: skip
"""Commands that have no row to give of the store: it is sound, and has no groups, timers and tables."""
WITHOUT_NUMBERS = ("put", "simulate", "fingerprint", "schema", "config settings", "quarantine list", "backup list")
"""Commands that have no number but in rows."""
ABSENT_IN = {Format.JSONL: WITHOUT_ROWS, Format.PROMETHEUS: WITHOUT_NUMBERS}
FORMS = [form for form in Format if form not in (Format.AUTO, Format.JSON)]
"""Each is tried beside JSON."""
OF_BACKUPS = ("backup list", "backup verify", "backup diff", "backup prune", "backup restore")
NOT_OF_A_STORE = (
    "schema",
    "flush-bench",
    "put",
    "diff",
    "replay",
    "serve",
    "replicate serve",
    "replicate pull",
    *OF_BACKUPS,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that a command may change."""
    root = tmp_path_factory.mktemp("every") / "store"
    copy_store(golden("normal").store, root)
    # Its checkpoint then promises what the files hold, in whatever order the commands run.
    backups = root.with_name("backups")
    assert rmqctl("backup", "create", backups, store=root).code == OK
    assert rmqctl("put", "TopicA", "first", store=root).code == OK
    assert rmqctl("backup", "create", backups, store=root).code == OK
    return root


def code_of(path: str) -> int:
    """With what a line of LINES ends over a sound store."""
    return USAGE if path in REFUSED else FINDINGS if path in ("diff", "backup diff") else OK


def check_csv(out: str) -> None:
    rows = list(csv.reader(io.StringIO(out, newline=""), strict=True))
    assert {len(row) for row in rows} == {len(rows[0])}


def check_json(out: str) -> None:
    assert json.loads(out)


def check_jsonl(out: str) -> None:
    for line in out.splitlines():
        assert isinstance(json.loads(line), dict)


CHECKS = {
    Format.TABLE: check_table,
    Format.CSV: check_csv,
    Format.JSON: check_json,
    Format.JSONL: check_jsonl,
}


def test_each_command_has_its_line() -> None:
    assert LINES.keys() == {place.path for place in COMMANDS}


@pytest.mark.parametrize(("form", "path"), one_of(13, FORMS, LINES))
def test_a_command_prints_each_format_whole_and_on_80_columns(
    form: Format, path: str, store: Path, tmp_path: Path
) -> None:
    forms = (form, Format.JSON) if path != "flush-bench" else (Format.TABLE,)
    runs = {one: rmqctl(*words_of(path, store, tmp_path, one), terminal=one is Format.TABLE) for one in forms}
    for one, run in runs.items():
        assert run.code == code_of(path), run.err
        if path not in REFUSED:
            assert bool(run.out) == (path not in ABSENT_IN.get(one, ()))
            CHECKS.get(one, lambda out: None)(run.out)
        else:
            assert (run.out, run.err.startswith("rmqctl: "), "Traceback" in run.err) == ("", True, False), run.err
    if path in (*REFUSED, "flush-bench"):
        return
    document = runs[Format.JSON].json
    if form is Format.MARKDOWN:
        assert headings(runs[form].out) <= names_of_rows(document)
    if form is Format.PLAIN:
        # In a pipe each row is one line, however wide.
        assert set(lines_of_tables(runs[form].out)) <= set(lists_in(document)), runs[form].out


def headings(markdown: str) -> set[str]:
    """The columns of each table; facts have none."""
    lines = markdown.splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith(("|:-", "|--"))]
    return {cell.strip() for number in rules for cell in lines[number - 1].strip("|").split("|")} - {""}


def names_of_rows(document: dict[str, object]) -> set[str]:
    rows = [row for value in document.values() if isinstance(value, list) for row in value]
    return {name for row in rows if isinstance(row, dict) for name in row}


@pytest.mark.turns(2)
@pytest.mark.parametrize("path", ["put", "get", "find", "dump", "export", "report"])
def test_a_command_writes_to_a_stream_that_is_not_utf_8(path: str, store: Path, tmp_path: Path) -> None:
    for form in (Format.TABLE, Format.JSON):
        run = rmqctl(*words_of(path, store, tmp_path, form), encoding="ascii")
        assert run.code == code_of(path), run.err


@pytest.mark.turns(4)
@pytest.mark.parametrize("path", [path for path in LINES if path not in NOT_OF_A_STORE])
def test_without_a_store_nothing_is_printed_in_any_format(path: str, tmp_path: Path) -> None:
    for form in (Format.JSON, Format.CSV):
        run = rmqctl(*words_of(path, tmp_path / "absent", tmp_path, form))
        assert (run.code, run.out, run.err.count("\n")) == (NOT_READABLE, "", 1), run.err


@pytest.mark.turns(4)
@pytest.mark.parametrize("path", [path for path in LINES if path not in NOT_OF_A_STORE])
def test_of_a_folder_around_or_in_the_store_the_store_is_named(path: str, tmp_path: Path) -> None:
    (tmp_path / "broker/store/commitlog").mkdir(parents=True)
    for place in (tmp_path / "broker", tmp_path / "broker/store/commitlog"):
        run = rmqctl(*words_of(path, place, tmp_path))
        assert (run.code, run.out) == (NOT_READABLE, "")
        assert run.err.endswith(f"; did you mean {tmp_path}/broker/store?\n"), run.err


@pytest.mark.turns(4)
@pytest.mark.parametrize("path", LINES)
def test_a_setting_that_no_broker_has_is_refused_by_each(path: str, store: Path, tmp_path: Path) -> None:
    for setting in ("noSuchSetting=1", "mappedFileSizeCommitLog=x", "flushDiskType=BLUE"):
        run = rmqctl("--set", setting, *words_of(path, store, tmp_path))
        assert (run.code, run.out) == (USAGE, "")
        assert setting.split("=", maxsplit=1)[0] in run.err


REFUSES_SIZES = """usage | sql "select 1" | export --to - --as jsonl | get TopicA | timeline | fingerprint
    rebuild --dry-run | recover --dry-run | clean-expired --dry-run | checkpoint show | lag | index-query TopicA x"""


@pytest.mark.parametrize("line", REFUSES_SIZES.replace("\n", "|").split("|"))
def test_a_segment_size_that_does_not_fit_is_refused(line: str, store: Path) -> None:
    run = rmqctl("--quiet", "--set", "mappedFileSizeCommitLog=4096", *shlex.split(line), store=store)
    assert (run.code, run.out) == (4, "")
    assert "65536 bytes instead of 4096" in run.err


@pytest.mark.parametrize("line", ["check", "check --fleet"])
def test_a_segment_size_that_does_not_fit_is_a_finding_of_a_check(line: str, store: Path) -> None:
    run = rmqctl("--quiet", "--set", "mappedFileSizeCommitLog=4096", "-f", "json", *line.split(), store=store)
    assert (run.code, run.json["findings"][0]["kind"]) == (FINDINGS, "wrong-size")


ASKED_OF_THE_LOG = (
    'sql "select count(*) n from messages"', "usage", "audit", "salvage", "check", "get TopicA --max 5", "find order5",
    "dump commitlog --limit 5", "checkpoint show", "rebuild --dry-run", "recover --abnormal --dry-run",
)  # fmt: skip


@pytest.mark.turns(3)
def test_a_log_in_another_folder_is_asked_as_any_other(store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, tmp_path / "store")
    (tmp_path / "store/commitlog").rename(tmp_path / "log")
    (tmp_path / "store/commitlog").mkdir()
    words = ("--quiet", "--set", f"storePathCommitLog={tmp_path / 'log'}", "-f", "jsonl")
    for line in ASKED_OF_THE_LOG:
        moved = rmqctl(*words, *shlex.split(line), store=tmp_path / "store")
        assert moved.code == OK, moved.err
        there = rmqctl("--quiet", "-f", "jsonl", *shlex.split(line), store=store)
        assert moved.out.replace(f"{tmp_path}/log/", "commitlog/") == there.out, line
    fleet = ("sql", "select 1", "--store", store, "--store", tmp_path / "store")
    assert rmqctl(*words, *fleet).code == USAGE


def test_every_command_writes_a_heading_as_csv_where_there_is_no_row(store: Path) -> None:
    for line in ("info", "check", "stale", "quarantine list", "transaction show", "filter show"):
        run = rmqctl("--quiet", "-f", "csv", *line.split(), store=store)
        assert run.out.split("\r\n")[0].count(",") > 1, line


WRONG = """dump consumequeue Nope/0 | dump consumequeue Nope/x | get Nope | get TopicA --queue 99 | get --log-offset 7
    sql "select nothing from messages" | sql "drop table messages" | export --to - --as jsonl --where "a b"
    export --to OUT/none --where nothing=1 | find --where "nothing = 1" | dump commitlog --where "nothing > 1"
    dump commitlog --from x | timeline --by nothing | usage --by nothing | diff STORE OUT | check --from 99999999
    fingerprint --verify OUT | lag --group nobody | config show nothing | index-query TopicA k --begin x
    truncate-dirty --offset -5 --dry-run | undo nothing | quarantine purge nothing --yes | schema nothing"""
FIND_NOTHING = {
    "get Nope": FINDINGS,
    "get TopicA --queue 99": FINDINGS,
    "lag --group nobody": FINDINGS,
    "config show nothing": OK,
}


@pytest.mark.turns(4)
@pytest.mark.parametrize("line", [line.strip() for line in WRONG.replace("\n", "|").split("|")])
def test_a_wrong_argument_never_leaves_half_a_document(line: str, store: Path, tmp_path: Path) -> None:
    words = shlex.split(line.replace("STORE", str(store)).replace("OUT", str(tmp_path)))
    for form in (Format.JSON, Format.CSV, Format.PLAIN):
        given = None if line.startswith(STORE_IS_NAMED) else store
        run = rmqctl("--quiet", "--format", form.value, *words, store=given)
        if line in FIND_NOTHING:
            assert run.code == FIND_NOTHING[line], run.err
            CHECKS.get(form, lambda out: None)(run.out)
        else:
            expected = NOT_READABLE if line.startswith(("diff", "dump consumequeue Nope")) else USAGE
            assert (run.code, run.out, run.err.count("\n")) == (expected, "", 1), (form, run.err)


class ClosedPipe(Text):
    """A pipe whose reader goes away after the first bytes."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.turns(8)
@pytest.mark.parametrize("path", [path for path in LINES if path not in ("schema", "flush-bench", "rebuild")])
def test_a_closed_pipe_ends_a_command_quietly_with_its_own_code(path: str, store: Path, tmp_path: Path) -> None:
    err = Text(False)
    environment = Environment(Keyboard(b"", False), ClosedPipe(False), err, {"NO_COLOR": "1"}, lambda: NOW_MS, 80)
    words = words_of(path, store, tmp_path, Format.JSONL)
    if path == "export":
        words = ["--quiet", "--store", str(store), "export", "--to", "-", "--as", "jsonl"]
    code = main(words, environment)
    assert code == code_of(path), err.written
    assert err.written.startswith(b"rmqctl: ") == (path in REFUSED), err.written
    assert b"roken pipe" not in err.written


@pytest.mark.turns(3)
@pytest.mark.parametrize("line", ["export --to - --as jsonl", "--help"])
def test_a_process_whose_reader_is_gone_exits_with_0(line: str, store: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", "rmqctl", "--quiet", "--store", str(store), *line.split()]
    run = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, timeout=120, check=False)
    os.close(writing)
    assert (run.returncode, b"Error" in run.stderr) == (OK, False)


@pytest.mark.turns(5)
@pytest.mark.parametrize("path", ["info", "find", "doctor", "recover", "lag"])
def test_a_real_terminal_of_80_columns_holds_every_line(path: str, store: Path, tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    words = [sys.executable, "-m", "rmqctl", *words_of(path, store, tmp_path)]
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "xterm"}
    with running(words, stdout=follower, stderr=subprocess.DEVNULL, env=environment):
        os.close(follower)
        check_table(read_all(leader))


def read_all(terminal: int) -> str:
    parts = []
    try:
        while part := os.read(terminal, 4096):
            parts.append(part)
    except OSError:  # Linux's end of a terminal
        pass
    os.close(terminal)
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_a_topic_in_chinese_is_itself_where_the_locale_is_ascii(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "rmqctl", "--store", str(tmp_path / "存储"), "put", "订单主题", "x"]
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment.pop("PYTHONIOENCODING", None)
    done = subprocess.run(words, env=environment, capture_output=True, timeout=60, check=False)
    # Of brokers' producers; the disk takes it.
    assert (done.returncode, done.stderr.count(b"\n")) == (OK, 1)
    assert done.stderr.startswith(b"warning: a broker refuses the topic ")
    assert "订单主题".encode("ascii", "backslashreplace") in done.stdout
    assert rmqctl("get", "订单主题", store=tmp_path / "存储").code == OK


OLD_WORDS = {
    "audit": "check --fleet",
    "compaction mend --dry-run": "rebuild compaction --dry-run",
    "config rebuild-topics --dry-run": "rebuild topics --dry-run",
    "delay rewrite-offsets --dry-run": "rebuild delay-offsets --dry-run",
    "rebuild --index --dry-run": "rebuild index --dry-run",
    "rebuild --queues --topic TopicA --dry-run": "rebuild queues --topic TopicA --dry-run",
    "receive no-address --to NEW": "replicate pull no-address --to NEW",
    "schema timer rebuild": "schema rebuild timer",
    "send --listen no-address": "replicate serve --listen no-address",
    "timer rebuild --roll-window 2 --dry-run": "rebuild timer --roll-window 2 --dry-run",
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("line", OLD_WORDS)
def test_an_old_word_does_what_its_new_one_does(line: str, store: Path, tmp_path: Path) -> None:
    named = ("--store", store) if "NEW" not in line else ()
    old, new = (
        rmqctl("--format", "json", *named, *words.replace("NEW", str(tmp_path / "new")).split())
        for words in (line, OLD_WORDS[line])
    )
    assert (old.code, old.out, old.err) == (new.code, new.out, new.err)
    assert old.code == (USAGE if "no-address" in line else OK), old.err


def test_a_fleet_is_what_check_is_given_several_of(store: Path) -> None:
    torn = golden("torn").store
    one = rmqctl("-f", "json", "check", "--store", torn).json
    many = rmqctl("-f", "json", "check", "--store", torn, "--store", store).json
    assert (one["schema"], many["schema"]) == ("rmqctl.check/1", "rmqctl.audit/1")
    found = [row["kind"] for row in one["findings"]]
    assert found
    assert sorted(found) == sorted(row["kind"] for row in many["findings"])
