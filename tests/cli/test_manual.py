"""The pages of section 7: each command and program in them does what the page says, on a store with that symptom."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import rmqctl
from tests.support.fake_broker import FakeBroker
from tests.support.five_stores import copy_of_five
from tests.support.manual_stores import copy_of, of_old_segments, with_services

MAN = Path(__file__).resolve().parents[2] / "man"
CELL = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def without_its_wheel(folder: Path) -> Path:
    root = copy_of_five("timer", folder)
    os.truncate(root / "timerwheel", 100)
    return root


def of_another_type(folder: Path) -> Path:
    root = copy_of_five("bcq", folder)
    tables = root / "config/topics.json"
    tables.write_text(tables.read_text().replace("BatchCQ", "SimpleCQ"))
    return root


def backed_up(folder: Path) -> Path:
    """A store with a backup in the folder above."""
    root = copy_of("normal")(folder)
    assert rmqctl("backup", "create", folder.parent / "backups", store=root).code == 0
    return root


def with_a_copy(folder: Path) -> Path:
    """A store that a start would cut, and its copy in the folder above."""
    root = copy_of("corrupt-mid")(folder)
    shutil.copytree(root, folder.parent / "copy")
    return root


TRIED: dict[str, tuple[Callable[[Path], Path], list[int]]] = {
    "The broker does not start": (without_its_wheel, [1, 1, 0, 0]),
    "The disk is full": (of_old_segments, [0, 0, 0, 0]),
    "Messages are missing": (copy_of("corrupt-mid"), [0, 1, 0, 1, 0]),
    "A start has lost messages": (with_a_copy, [1, 1, 1, 1]),
    "The start is slow": (copy_of("aborted"), [0, 0, 0]),
    "A queue is behind": (with_services, [1, 1, 0, 0]),
    "A sector can't be read": (copy_of("corrupt-mid"), [1, 1, 1]),
    "A queue has the wrong type": (of_another_type, [1, 1]),
    "Half messages are stuck": (with_services, [0, 0, 0]),
    "The store needs a backup": (copy_of("normal"), [0, 0, 0, 0]),
    "A store must go back to an earlier moment": (backed_up, [0, 0, 0, 0]),
    "Moving to another host": (copy_of("normal"), [0, 0, 0, 0]),
    "Before an upgrade": (copy_of("normal"), [0, 0, 0, 0]),
}
"""A store with the symptom, and the exit code of each command."""


def cookbook() -> dict[str, list[str]]:
    """The command lines of each section."""
    sections = (MAN / "rmqctl-cookbook.md").read_text("utf-8").split("\n## ")[1:]
    return {
        section.split("\n")[0]: re.search(r"```sh\n(.*?)```", section, re.DOTALL)[1].strip().splitlines()  # type: ignore[index]
        for section in sections
    }


def test_every_symptom_is_tried() -> None:
    assert list(cookbook()) == list(TRIED)


@pytest.mark.turns(6)
@pytest.mark.leaves_damage
@pytest.mark.parametrize("symptom", TRIED)
def test_the_commands_for_a_symptom_do_what_they_are_for(
    symptom: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, codes = TRIED[symptom]
    root = build(tmp_path / "built")
    monkeypatch.chdir(tmp_path)
    with FakeBroker({"TopicA": 4, "TopicB": 4, "topic_C-3": 4}) as broker:
        found = codes_of(cookbook()[symptom], root, tmp_path, broker.address)
    assert found == codes


def codes_of(lines: list[str], root: Path, tmp_path: Path, address: str) -> list[int]:
    """Run the lines of a section; the exit code of each."""
    found = []
    for line in lines:
        places = {"/data/store": str(root), "/data/": f"{tmp_path}/", "NAMESERVER": address}
        for name, place in places.items():
            line = line.replace(name, place)
        words = shlex.split(line)
        if words[0] == "rsync":
            shutil.copytree(root, tmp_path / "copy")
            found.append(0)
            continue
        words, target = (words[: words.index(">")], words[-1]) if ">" in words else (words, "")
        run = rmqctl(*words[1:])
        if target:
            (tmp_path / target).write_text(run.out)
        found.append(run.code)
    return found


@pytest.mark.turns(4)
def test_the_programs_of_the_library_page_print_what_is_printed(tmp_path: Path) -> None:
    text = (MAN / "rmqctl-library.md").read_text("utf-8").replace("/tmp/library", str(tmp_path))
    names: dict[str, Any] = {}
    tried = 0
    # tests/engine/serving/test_commands.py runs the one that needs a served store.
    for source, output in CELL.findall(text):
        if "StoreClient" in source:
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(source, "rmqctl-library.md", "exec"), names)
        assert out.getvalue() == output, source
        tried += 1
    assert tried == 3


def test_man_reads_the_pages_without_a_complaint() -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    for page in sorted((MAN / "man7").iterdir()):
        done = subprocess.run(
            ["groff", "-Kutf8", "-man", "-ww", "-Tutf8", str(page)], capture_output=True, text=True, check=True
        )
        assert done.stderr == "", page.name


@pytest.mark.parametrize("page", [path.stem for path in sorted(MAN.glob("*.md"))])
def test_a_page_names_commands_and_options_that_there_are(page: str) -> None:
    text = (MAN / f"{page}.md").read_text("utf-8")
    for words in {line.split(" ")[0] for line in re.findall(r"`rmqctl ([a-z][^`]*)`", text)}:
        assert rmqctl(words, "--help").code == 0, words
