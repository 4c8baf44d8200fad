"""The house rules that a machine can hold. tests/tidy_offences.toml lists what is left; it may only get shorter."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

from store.formats.topics import SYSTEM_PREFIX
from tests.support import tidy


@pytest.mark.parametrize("rule", tidy.RULES)
def test_no_file_breaks_a_rule_more_often_than_it_may(rule: str) -> None:
    assert tidy.too_many(rule) == []


@pytest.mark.parametrize("rule", tidy.RULES)
def test_the_list_of_offences_names_only_files_that_are_there(rule: str) -> None:
    assert [file for file in tidy.allowed(rule) if not (tidy.ROOT / file).is_file()] == []


def test_only_listed_modules_name_a_structure_outside_of_its_room() -> None:
    listed = tidy.listed_strangers()
    assert tidy.strangers() == sorted(listed)
    assert all(listed.values())
    assert len(listed) <= tidy.MOST_STRANGERS


def test_one_module_has_the_prefix_of_system_topics() -> None:
    named = [(file, text) for file, text in tidy.texts() if SYSTEM_PREFIX in text]
    parts = [(file, node) for file, text in named for node in ast.walk(ast.parse(text))]
    texts = {node.value for _, node in parts if isinstance(node, ast.Expr)}
    written = [
        file
        for file, node in parts
        if isinstance(node, ast.Constant) and node not in texts and SYSTEM_PREFIX in str(node.value)
    ]
    assert written == ["store/formats/topics.py"]


def test_the_lines_that_the_list_of_mutants_quotes_are_there() -> None:
    listed = tomllib.loads((tidy.ROOT / "tests" / "mutants.toml").read_text(encoding="utf-8"))
    quoted = {(one["file"], one["line"]) for one in listed["equivalent"]}
    quoted |= {(one["file"], one["rule"]) for one in listed["named"]}
    texts = {file: (tidy.ROOT / file).read_text(encoding="utf-8") for file, _ in quoted}
    assert [(file, line) for file, line in sorted(quoted) if line not in texts[file]] == []


def test_the_engine_has_few_loose_modules() -> None:
    loose = [path.name for path in (tidy.ROOT / "store").glob("*.py") if path.name != "__init__.py"]
    assert len(loose) <= tidy.MOST_LOOSE_MODULES, loose


def test_every_room_of_the_engine_has_a_mirror_among_the_tests() -> None:
    rooms = {path.parent.name for path in (tidy.ROOT / "store").glob("*/__init__.py")}
    tests = tidy.ROOT / "tests"
    tested = {path.relative_to(tests).parts[0] for path in tests.rglob("test_*.py")}
    assert rooms - tested == set()


def test_no_module_imports_a_module_of_tests() -> None:
    names = {path.stem for path in (tidy.ROOT / "tests").rglob("test_*.py")}
    imports = re.compile(rf"^\s*from tests\S*( import \(?.*|\.)\b({'|'.join(names)})\b", re.MULTILINE)
    assert imports.search("from tests.cli.test_put import form")
    assert imports.search("    from tests.cli import running, test_put")
    modules = (tidy.ROOT / "tests").rglob("*.py")
    assert [path.name for path in modules if imports.search(path.read_text(encoding="utf-8"))] == []


def test_the_readme_has_300_lines_at_most() -> None:
    assert len(tidy.README.read_text(encoding="utf-8").splitlines()) <= 300


def test_every_place_that_the_readme_says_to_change_is_there() -> None:
    table = tidy.README.read_text(encoding="utf-8").split("| change | open |\n")[1].split("\n\n")[0]
    rows = table.splitlines()[1:]
    places = [re.findall(r"`(\w+/[\w./-]*)`", row.split("|")[2]) for row in rows]
    assert len(rows) >= 10
    assert [place for row in places for place in row if not (tidy.ROOT / place).exists()] == []


def test_the_picture_in_the_readme_shows_the_imports_of_the_rooms() -> None:
    drawn = tidy.MERMAID.search(tidy.README.read_text(encoding="utf-8"))
    assert drawn is not None
    assert drawn.group() == tidy.picture(), "python -m tests.support.tidy --picture draws it"
