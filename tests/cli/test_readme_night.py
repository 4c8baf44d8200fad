"""The README's story of one bad night: each command does what is printed there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.running import rmqctl
from tests.support.golden import copy_store, golden

README = Path(__file__).resolve().parents[2] / "README.md"
DIFFERS = ("free_bytes ", "disk_used_percent ")
"""Lines that say something of the machine."""
NAMED = (
    ("--store night/store find order130", 0, "1 message found as key"),
    ("--store night/store salvage --to saved --keep-offsets", 1, "499 certain records, 1 doubtful"),
    ("--store saved doctor", 1, "something to know: lost messages; 1 finding"),
)
"""Commands of the story that it does not show the output of, with exit code and first words."""


def story() -> list[tuple[str, str]]:
    """Command line and output of each block of the story."""
    section = README.read_text("utf-8").split("\n## One bad night\n")[1].split("\n## ")[0]
    return re.findall(r"```console\n\$ rmqctl (.*)\n((?:.*\n)*?)```", section)


def told(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines() if not line.startswith(DIFFERS)]


def test_every_command_of_the_story_prints_what_the_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_store(golden("corrupt-mid").store, tmp_path / "night/store")
    monkeypatch.chdir(tmp_path)
    blocks = story()
    for (words, shown), expected in zip(blocks, ["info", "doctor"], strict=True):
        run = rmqctl(*words.split(), terminal=True)
        assert (words.split()[2], run.code) == (expected, 1), run.err
        assert told(run.out) == told(shown), words
    text = " ".join(README.read_text("utf-8").split())
    for words, code, said in NAMED:
        run = rmqctl(*words.split())
        assert (f"`rmqctl {words}`" in text, run.code, run.out.startswith(said)) == (True, code, True), run.out
    assert rmqctl("--store", "saved", "find", "order130").code == 0


def test_the_first_command_prints_what_the_readme_shows() -> None:
    shown = README.read_text("utf-8").split("would become:\n\n```\n")[1].split("```\n")[0]
    run = rmqctl("recover", "--abnormal", "--dry-run", store=golden("aborted").store, terminal=True)
    assert told(run.out) == told(shown)
