"""Defaults of the global options: a file, variables, and the order in which they count."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqctl.defaults import option_names, read_defaults
from rmqctl.exit_codes import USAGE
from tests.cli.running import Run, rmqctl
from tests.support.golden import golden


def with_file(tmp_path: Path, text: str, *words: object, **variables: str) -> Run:
    (tmp_path / "rmqctl.toml").write_text(text, encoding="utf-8")
    return rmqctl(*words, variables={"XDG_CONFIG_HOME": str(tmp_path), "NO_COLOR": "1", **variables})


STORE = f'store = "{golden("normal").store}"\n'


@pytest.mark.parametrize(
    ("text", "variables", "words", "begins"),
    [
        (STORE, {}, (), "a 4.9 store"),
        (STORE + 'format = "json"', {}, (), "{"),
        (STORE + 'format = "json"', {"RMQCTL_FORMAT": "csv"}, (), "compat,"),
        (STORE + 'format = "json"', {"RMQCTL_FORMAT": "csv"}, ("--format", "plain"), "a 4.9 store"),
        (STORE, {"RMQCTL_FORMAT": ""}, (), "a 4.9 store"),
    ],
)
def test_the_command_line_comes_before_variables_and_these_before_the_file(
    text: str, variables: dict[str, str], words: tuple[str, ...], begins: str, tmp_path: Path
) -> None:
    assert with_file(tmp_path, text, "info", *words, **variables).out.startswith(begins)


@pytest.mark.parametrize(
    ("text", "variables", "wanted"),
    [
        (
            "[set]\nmaxMessageSize = 100\nmessageIndexEnable = false",
            {},
            ["maxMessageSize=100", "messageIndexEnable=false"],
        ),
        ('set = ["a=b"]', {}, ["a=b"]),
        ("", {"RMQCTL_SET": "a=b c=d"}, ["a=b", "c=d"]),
    ],
)
def test_settings_are_a_table_a_list_or_words(
    text: str, variables: dict[str, str], wanted: list[str], tmp_path: Path
) -> None:
    (tmp_path / "rmqctl.toml").write_text(text, encoding="utf-8")
    assert read_defaults({"XDG_CONFIG_HOME": str(tmp_path), **variables})["settings"] == wanted


def test_the_file_is_in_the_home_folder_without_another_place(tmp_path: Path) -> None:
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config/rmqctl.toml").write_text("quiet = true", encoding="utf-8")
    assert read_defaults({"HOME": str(tmp_path)}) == {"quiet": True}
    assert read_defaults({}) == {}


def test_every_global_option_has_a_name() -> None:
    assert {"store", "broker-conf", "set", "format", "no-color", "remote-retries"} <= option_names().keys()
    assert "version" not in option_names()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('fromat = "x"', "'fromat' is no global option; did you mean 'format'?"),
        ("[recover]\nyes = true", "'recover' is no global option"),
        ("format = =", "can't be read"),
        ('format = "x"', "'x' is not one of"),
        ("quiet = 5", "rmqctl.toml: quiet is neither true nor false: 5"),
        ("remote-retries = true", "rmqctl.toml: remote-retries is neither a text nor a number: true"),
        ("remote-retries = 1.5", "'1.5' is not a whole number"),
        ('log = ["a"]', "rmqctl.toml: log is neither a text nor a number: ['a']"),
        ("[set]\nmaxMessageSize = [1]", "rmqctl.toml: maxMessageSize is neither a text nor a number: [1]"),
        ("set = [5]", "write the settings as a table [set], or set as a list of NAME=VALUE"),
        ('set = "x=1"', "write the settings as a table [set], or set as a list of NAME=VALUE"),
    ],
)
def test_a_wrong_file_is_one_sentence(text: str, says: str, tmp_path: Path) -> None:
    run = with_file(tmp_path, text, "info")
    assert (run.code, says in run.err, run.err.count("\n")) == (USAGE, True, 1), run.err


@pytest.mark.parametrize(
    ("text", "words", "variables", "ends"),
    [
        ('format = "x"', (), {}, "; the value is that of FOLDER/rmqctl.toml (see rmqctl --help)"),
        ('format = "x"', (), {"RMQCTL_FORMAT": "y"}, "; the value is that of RMQCTL_FORMAT (see rmqctl --help)"),
        ('format = "csv"', (), {"RMQCTL_TIME": "y"}, "; the value is that of RMQCTL_TIME (see rmqctl --help)"),
        ('format = "csv"', ("--format", "z"), {}, "'prometheus' (see rmqctl info --help)"),
        ("[set]\nbogus = 1", (), {}, "lists the names; the value is that of FOLDER/rmqctl.toml"),
        ("", (), {"RMQCTL_SET": "maxMessageSize=a"}, "number, not 'a'; the value is that of RMQCTL_SET"),
        ("", ("--set", "maxMessageSize=b"), {"RMQCTL_SET": "maxMessageSize=a"}, "needs a whole number, not 'b'"),
        ("", ("--set", "bogus=1"), {"RMQCTL_SET": "maxMessageSize=9"}, "`rmqctl config settings` lists the names"),
        ("", (), {"RMQCTL_WIDE": "si"}, "neither true nor false; the value is that of RMQCTL_WIDE (see rmqctl --help)"),
        ("", (), {"RMQCTL_SET": "a"}, "not NAME=VALUE; the value is that of RMQCTL_SET (see rmqctl --help)"),
        ("bwlimit = -1", (), {}, "such as 50M; the value is that of FOLDER/rmqctl.toml (see rmqctl --help)"),
        ('store = ""', (), {}, "a store's folder; the value is that of FOLDER/rmqctl.toml (see rmqctl --help)"),
    ],
)
def test_a_wrong_default_is_named_with_the_file_or_variable_that_has_it(
    text: str, words: tuple[str, ...], variables: dict[str, str], ends: str, tmp_path: Path
) -> None:
    run = with_file(tmp_path, text, "info", *words, **variables)
    assert (run.code, run.err.strip().replace(str(tmp_path), "FOLDER")[-len(ends) :]) == (USAGE, ends)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("STORE", "/nowhere", ("info",)),
        ("STORE", "nowhere", ("info",)),
        ("STORE", "s3://b/x", ("undo", "x")),
        ("BROKER_CONF", "/nowhere/broker.conf", ("config", "settings")),
        ("LOG", "/nowhere/log", ("info",)),
        ("SCRATCH", "/proc", ("recover", "--dry-run")),
    ],
)
def test_an_error_that_begins_with_a_default_names_its_variable(name: str, value: str, words: tuple[str, ...]) -> None:
    variables = {"RMQCTL_STORE": str(golden("normal").store), f"RMQCTL_{name}": value}
    run = rmqctl(*words, variables=variables)
    assert run.err.endswith(f"; the value is that of RMQCTL_{name}\n"), run.err
    own = rmqctl(f"--{name.lower().replace('_', '-')}", value, *words, variables=variables | {f"RMQCTL_{name}": ""})
    assert (own.code, own.err) == (run.code, run.err.replace(f"; the value is that of RMQCTL_{name}", ""))
