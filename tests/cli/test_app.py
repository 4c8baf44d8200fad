"""The application: help, global options, errors and exit codes."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rmqctl import version
from rmqctl.app import app, main
from rmqctl.commands import COMMANDS, FOREIGN, PANELS
from rmqctl.environment import Environment
from rmqctl.exit_codes import INTERRUPTED, OK, USAGE, exit_code_of
from rmqctl.topics import TOPICS
from store import Message, __version__, errors, open_store
from store.files import Filesystem
from tests.cli.running import rmqctl
from tests.support.golden import golden
from tests.support.stores import make_store

PATHS = [command.path.split() for command in COMMANDS]


def test_help_lists_every_command_within_eighty_columns() -> None:
    run = subprocess.run([sys.executable, "-m", "rmqctl", "--help"], capture_output=True, text=True, check=True)
    for path in PATHS:
        assert f"  {path[0]} " in run.stdout
    assert max(map(len, run.stdout.splitlines())) <= 80
    assert "..." not in run.stdout.split("Look:")[1]


def test_a_list_of_commands_has_the_first_line_of_each_help() -> None:
    lines = {place.path: str(place.load()[0].__doc__).split("\n", 1)[0].rstrip(".") for place in COMMANDS}
    assert {place.path: place.summary for place in COMMANDS} == lines


def test_help_has_each_command_in_one_panel_of_at_most_eight() -> None:
    shown = [word for words in PANELS.values() for word in words]
    assert sorted(shown) == sorted({path[0] for path in PATHS})
    assert max(map(len, PANELS.values())) <= 8


def test_the_readme_lists_every_command() -> None:
    readme = Path(__file__).parents[2].joinpath("README.md").read_text("utf-8")
    table = readme.split("| command | what it does |\n")[1].split("\n\n")[0]
    listed = set(re.findall(r"`([a-z]+(?:[ -][a-z]+)*)", table))
    assert [path for path in map(" ".join, PATHS) if path not in listed] == []


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (["help"], "Usage: rmqctl [OPTIONS] COMMAND [ARGS]..."),
        (["help", "lag"], "Usage: rmqctl lag [OPTIONS]"),
        (["--store", "/none", "help"], "Usage: rmqctl [OPTIONS] COMMAND [ARGS]..."),
        (["--store", "/none", "help", "lag"], "Usage: rmqctl lag [OPTIONS]"),
        (["--quiet", "help", "glossary"], "abort marker"),
        (["help", "config", "show"], "Usage: rmqctl config show [OPTIONS] [TABLE]"),
        (["-V"], f"rmqctl {__version__}"),
        (["help", "glossary"], "abort marker"),
    ],
)
def test_help_and_version_have_a_second_way(words: list[str], first: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == OK
    assert capsys.readouterr().out.splitlines()[0] == first


@pytest.mark.parametrize("word", FOREIGN)
def test_a_word_of_another_tool_names_commands_that_are_there(word: str) -> None:
    run = rmqctl(word.upper(), "-l")
    assert run.code == USAGE
    for words in FOREIGN[word]:
        assert f"`rmqctl {words}`" in run.err
        assert words.split()[0] in {path[0] for path in PATHS}


def test_help_imports_no_heavy_library() -> None:
    code = "import sys; from rmqctl.app import main; main(['--help']); print(sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = run.stdout.splitlines()[-1]
    for name in ("numpy", "pyarrow", "pyspark", "rich", "lark", "pandas", "store"):
        assert f"'{name}'" not in loaded


@pytest.mark.turns(4)
@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_has_help_with_an_example(path: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert rmqctl(*path, "--help").code == 0
    text = capsys.readouterr().out
    assert "Examples:" in text
    assert "\n    rmqctl " in text
    assert " ".join(path) in text.split("Examples:")[1]


def test_help_breaks_no_name_of_an_option(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in ("recover", "put", "salvage", "simulate"):
        assert rmqctl(words, "--help").code == 0
        assert not [line for line in capsys.readouterr().out.splitlines() if line.endswith("-")]


def test_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert rmqctl("--version").code == 0
    assert capsys.readouterr().out.startswith(f"rmqctl {__version__}")


def test_a_package_without_compiled_kernels_says_so_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(version.NO_EXTENSIONS, raising=False)
    monkeypatch.setattr(version, "EXTENSION_SUFFIXES", [".none"])
    assert version.UNCOMPILED in version.version_text()
    assert rmqctl("quarantine", "list", store=tmp_path).err.count(version.UNCOMPILED) == 1


def test_kernels_switched_off_are_named_with_the_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(version.NO_EXTENSIONS, "1")
    assert version.version_text().endswith(version.SWITCHED_OFF)
    assert version.SWITCHED_OFF not in rmqctl("quarantine", "list", store=tmp_path).err


def test_no_command_shows_help_and_is_a_usage_error() -> None:
    run = rmqctl()
    assert run.code == 2
    assert "Usage:" in run.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["help", "glosary"], "no command or topic is called 'glosary'; did you mean 'glossary'?; topics: glossary, "),
        (["help", "consumerProgress"], "here `rmqctl lag` does it"),
        (["get", "T", "--quue", "1"], "--quue"),
        (["get", "T", "--queue", "x"], "'--queue': 'x' is not a whole number (see rmqctl get --help)"),
        (["put", "T", "b", "--flag", "x"], "'--flag': 'x' is not a whole number (see rmqctl put --help)"),
        (["check", "--sample", "x"], "'--sample': 'x' is not a number (see rmqctl check --help)"),
        (["stop", "--timeout", "x"], "'--timeout': 'x' is not a number (see rmqctl stop --help)"),
        (["get", "T", "--queue"], "--queue"),
        (["get"], "give a TOPIC"),
        (["get", "T", "--since", "yesterday"], "--since"),
        (["get", "T", "--tags", "A", "--sql", "a = 1"], "--tags and --sql do not go together"),
        (["get", "T", "--offset", "1", "--since", "-1m"], "--offset and --since do not go together"),
        (["get", "T", "--max", "2", "--follow"], "rmqctl: --max and --follow do not go together"),
        (["get", "T", "--max=2", "--follow"], "rmqctl: --max and --follow do not go together"),
        (["get", "T", "--limit", "2", "--follow"], "rmqctl: --limit and --follow do not go together"),
        (["get", "T", "--max", "0"], "Invalid value for --max: 0 is not in the range x>=1"),
        (["get", "T", "--max", "0", "--limit", "0"], "Invalid value for '--limit' / '--max': 0 is not in"),
        (["index-query", "T", "k", "--begin", "x"], "Invalid value for --begin: 'x' is not a time"),
        (["get", "T", "--sql", "a ="], "ends too early"),
        (["get", "--msg-id", "xyz"], "not a message id"),
        (["get", "T", "--format", "xml"], "xml"),
        (["get", "T", "--set", "novalue"], "not NAME=VALUE"),
        (["put"], "give a TOPIC"),
        (["put", "T"], "give a BODY"),
        (["put", "T", "x", "--property", "novalue"], "not NAME=VALUE"),
        (["put", "--from", "f", "--body-file", "g"], "--from and --body-file do not go together"),
        (["--set", "novalue", "get", "T"], "not NAME=VALUE"),
        (["--format", "xml", "get", "T"], "xml"),
        (["recover", "--normal", "--abnormal", "--dry-run"], "--normal and --abnormal do not go together"),
        (["recover"], "--yes"),
        (["recover", "--dry-run", "--yes"], "one of them"),
        (["truncate-dirty"], "--yes"),
        (["clean-expired"], "--yes"),
        (["checkpoint", "rewrite"], "--yes"),
        (["index-query", "T", "k", "--begin", "-1m", "--end", "-2m"], "--begin is later than --end"),
        (["get", "T", "--key", "k", "--since", "-1m", "--until", "-2m"], "--since is later than --until"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_clear_line_and_exit_2(words: list[str], says: str, tmp_path: Path) -> None:
    run = rmqctl(*words, store=tmp_path / "none")
    assert run.code == 2, run.err
    assert run.out == ""
    assert run.err.startswith("rmqctl: ")
    assert run.err.count("\n") == 1
    assert says in run.err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.StoreLocked("x"), 3),
        (errors.NotAStore("x"), 4),
        (errors.UnsupportedFormat("x"), 4),
        (errors.UncleanStore("x"), 4),
        (errors.DamagedRecord("x"), 4),
        (errors.WrongFileSize("x"), 4),
        (errors.ForeignFile("x"), 4),
        (errors.StoreIOError("x"), 5),
        (errors.StoreClosed("x"), 5),
        (errors.BadRequest("x"), 2),
        (PermissionError("x"), 5),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError(), 70),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_every_error_has_its_exit_code(error: BaseException, code: int) -> None:
    assert exit_code_of(error) == code


def test_a_defect_is_one_sentence_and_its_traceback_needs_verbose(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **named: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("rmqctl.given_store.GivenStore.open", broken)
    quiet, verbose = rmqctl("get", "T"), rmqctl("--verbose", "get", "T")
    assert (quiet.code, verbose.code) == (70, 70)
    assert "Traceback" not in quiet.err
    assert "a defect in rmqctl: ZeroDivisionError: oops" in quiet.err
    assert "Traceback" in verbose.err


def test_completion_knows_the_commands() -> None:
    completion = {"_RMQCTL_COMPLETE": "complete_bash", "COMP_WORDS": "rmqctl qua", "COMP_CWORD": "1"}
    words = [sys.executable, "-c", "from rmqctl.app import main; main()"]
    run = subprocess.run(words, env={**os.environ, **completion}, capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["quarantine"]


def test_global_options_are_taken_before_and_behind_the_command(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    before = rmqctl("--format", "json", "quarantine", "list", store=tmp_path)
    for words in (["quarantine", "list", "--format", "json"], ["quarantine", "--format", "json", "list"]):
        assert rmqctl(*words, "--store", tmp_path).out == before.out != ""


def test_a_setting_behind_the_command_adds_to_those_before_it(tmp_path: Path) -> None:
    words = ("--set", "haListenPort=1", "get", "T", "--set", "haHousekeepingInterval=2", "--verbose")
    run = rmqctl(*words, store=make_store(tmp_path / "store", 1))
    assert "settings given: haListenPort=1, haHousekeepingInterval=2" in run.err


@pytest.mark.turns(4)
@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_typer_testing_runs_every_command_with_the_exit_code_of_the_process(path: list[str], tmp_path: Path) -> None:
    words = [*path, "--store", str(tmp_path / "none"), "--no-such-option"]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == rmqctl(*words).err
    help_text = CliRunner().invoke(app, [*path, "--help"])
    assert (help_text.exit_code, "Examples:" in help_text.stdout) == (0, True)


def test_typer_testing_shows_what_the_process_shows(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    words = ["--store", str(tmp_path), "--format", "json", "quarantine", "list"]
    process = subprocess.run([sys.executable, "-m", "rmqctl", *words], capture_output=True, text=True, check=True)
    assert CliRunner().invoke(app, words).stdout == process.stdout
    assert CliRunner().invoke(app, ["--store", str(tmp_path / "none"), "get", "T"]).exit_code == 4


def test_a_log_ends_with_its_run(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", 1)
    logs = [tmp_path / name for name in ("first", "second")]
    for log in logs:
        assert rmqctl("get", "T", "--log", log, store=store).code == 0
    assert [log.read_text().count("exit code 0") for log in logs] == [1, 1]
    held = {str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()}
    assert held.isdisjoint(map(str, logs))


def test_a_log_says_what_was_run_and_how_it_ended_without_control_characters(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    run = rmqctl("get", "T", "--log", log, store=tmp_path / "no\x1b[31mne")
    lines = log.read_text().splitlines()
    assert lines[0].endswith(f"get T --log {log}")
    assert "object" not in lines[0]
    assert lines[-1].endswith("INFO exit code 4")
    assert any("no such folder" in line for line in lines)
    for text in (run.err, log.read_text()):
        assert all(line.isprintable() for line in text.splitlines())


def test_a_time_out_of_range_is_wrong_usage(tmp_path: Path) -> None:
    for text in ("99999999999999999", "-99999999d", "9" * 200):
        reason = "is not a time" if len(text) == 200 else "is out of range"
        run = rmqctl("clean-expired", "--dry-run", f"--now={text}", store=tmp_path)
        assert (run.code, reason in run.err) == (2, True), run.err


def test_a_file_named_like_the_engine_in_the_current_folder_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "store.py").write_text("raise SystemExit('the wrong store')")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    words = [sys.executable, "-m", "rmqctl", "--store", "none", "get", "T"]
    run = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, "no such folder" in run.stderr) == (4, True), run.stderr


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("get Topic", ["TopicA", "TopicB"]),
        ("--store STORE get TopicA --queue ", ["0", "1", "2", "3"]),
        ("get --store STORE Topic", ["TopicA", "TopicB"]),
        ("lag --group ", ["billing"]),
        ("undo 2", ["20261121T000000.000-recover"]),
        ("get TopicA --form", ["--format"]),
        ("checkpoint sh", ["show"]),
    ],
)
def test_completion_knows_topics_queues_groups_and_changes(words: str, found: list[str], tmp_path: Path) -> None:
    for name in ("TopicA/0", "TopicA/1", "TopicA/2", "TopicA/3", "TopicB/0", "other/0"):
        (tmp_path / "consumequeue" / name).mkdir(parents=True)
    (tmp_path / ".rmqctl" / "quarantine" / "20261121T000000.000-recover").mkdir(parents=True)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "consumerOffset.json").write_text('{"offsetTable": {"TopicA@billing": {"0": 1}}}')
    line = f"rmqctl {words.replace('STORE', str(tmp_path))}"
    count = len(line.split()) - (not line.endswith(" "))
    variables = {
        **os.environ, "_RMQCTL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(count),
        "RMQCTL_STORE": str(tmp_path),
    }  # fmt: skip
    code = [sys.executable, "-c", "from rmqctl.app import main; main()"]
    run = subprocess.run(code, env=variables, capture_output=True, text=True, check=False)
    assert run.stdout.split() == found, run.stderr


def test_a_pace_is_taken_for_one_command_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", read_only=False) as store:
        store.put(Message.of("T", "hello"))
    before = Filesystem.pace
    assert rmqctl("check", "--bwlimit", "50M", "--cold", store=tmp_path / "store").code == 0
    assert Filesystem.pace is before
    for rate in ("fast", "0", "-1M"):
        run = rmqctl("check", f"--bwlimit={rate}", store=tmp_path / "store")
        assert run.code == 2
        assert "no rate" in run.err


@pytest.mark.turns(3)
def test_a_nice_command_lets_other_processes_go_first() -> None:
    code = (
        "import os; from rmqctl.app import main; main(['--nice', 'schema']); print(os.getpriority(os.PRIO_PROCESS, 0))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "19"


def test_a_closed_stream_gives_its_number_to_no_file_and_stdout_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    streams = Environment.real()
    with streams.stdin, streams.stderr:
        assert streams.stderr.write("lost on purpose") > 0
        assert streams.stdin.read() == b""
    streams.stdout.write("x")
    with pytest.raises(OSError, match="Bad file descriptor"):
        streams.stdout.close()


@pytest.mark.turns(4)
@pytest.mark.parametrize(("words", "said"), [
    ("--format json info", "rmqctl: stdout is closed, so the result was not written\n"),
    ("info", "rmqctl: stdout is closed, so the result was not written\n"),
    ("--format jsonl get TopicA", "rmqctl: stdout is closed, so the result was not written\n"),
    ("get TopicA --raw", "rmqctl: stdout is closed, so the result was not written\n"),
    ("schema get", "rmqctl: stdout is closed, so the result was not written\n"),
])  # fmt: skip
def test_a_result_that_a_closed_stdout_does_not_take_is_an_io_error(words: str, said: str) -> None:
    command = f"{sys.executable} -m rmqctl --store {golden('normal').store} {words} >&-"
    run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (5, said)


@pytest.mark.parametrize(("error", "said"), [
    (OSError(errno.EBADF, "Bad file descriptor"), "stdout is closed, so the result was not written"),
    (OSError(errno.EBADF, "Bad file descriptor", "f"), "f: bad file descriptor"),
    (OSError(errno.ENOSPC, "No space left on device"), "no space left on device"),
    (OSError(errno.ENOSPC, "No space left on device", "f"), "f: no space left on device"),
])  # fmt: skip
def test_only_a_closed_descriptor_without_a_file_is_stdout(
    error: OSError, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object, **named: object) -> None:
        raise error

    monkeypatch.setattr("rmqctl.given_store.GivenStore.open", refused)
    assert rmqctl("get", "T").err == f"rmqctl: {said}\n"


def test_an_error_that_an_interrupt_caused_is_the_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: object, **named: object) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise RuntimeError("reentrant call") from None

    monkeypatch.setattr("rmqctl.given_store.GivenStore.open", interrupted)
    assert main(["--store", str(golden("normal").store), "get", "T"]) == INTERRUPTED
    assert capsys.readouterr().err == "rmqctl: interrupted; the store is consistent\n"


@pytest.mark.parametrize(
    ("topic", "first"),
    [
        ("glossary", "abort marker"),
        ("cookbook", "# rmqctl-cookbook: what to do, by symptom"),
        ("install", "# rmqctl-install: ways to install, and what each part needs"),
        ("library", "# rmqctl-library: the message store as a Python library"),
        ("remote", "# rmqctl-remote: stores in object storage, on mounts, and many at once"),
        ("spark", "# rmqctl-spark: stores that outgrow one machine"),
        ("stability", "# rmqctl-stability: what later versions keep as it is"),
    ],
)
def test_help_prints_the_page_of_a_topic(topic: str, first: str) -> None:
    run = rmqctl("help", topic)
    assert (run.code, run.out.splitlines()[0], run.err) == (0, first, "")


def test_help_names_every_topic_and_the_commands_before_the_options() -> None:
    text = " ".join(CliRunner().invoke(app, ["--help"]).output.split())
    assert text.endswith(f"rmqctl help TOPIC prints a page: {', '.join(TOPICS)}.")
    assert text.index("Look: info ") < text.index("Undo: undo ") < text.index("Options: --store DIR")


def test_a_body_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqctl.commands.put.MOST_BODY_BYTES", 4096)
    run = rmqctl("put", "T", "--body-file", "/dev/zero", store=tmp_path / "new")
    refusal = "rmqctl: Invalid value for --body-file: /dev/zero has more than 4096 bytes (see rmqctl put --help)\n"
    assert (run.code, run.err, (tmp_path / "new").exists()) == (2, refusal, False)
