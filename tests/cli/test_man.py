"""The manual pages in the repository are what the application says of itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from rmqctl import manpages
from rmqctl.app import app
from rmqctl.commands import COMMANDS
from rmqctl.glossary import terms_in
from rmqctl.manpages import pages

MAN = Path(__file__).resolve().parents[2] / "man"
PAGES = pages(MAN)


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name: str) -> None:
    assert (MAN / name).read_text(encoding="utf-8") == PAGES[name], "run: python -m rmqctl.manpages man"


def test_no_page_is_left_over() -> None:
    assert {str(path.relative_to(MAN)) for path in MAN.rglob("*.[157]")} == PAGES.keys()


def test_every_command_has_a_page_with_an_example() -> None:
    for command in COMMANDS:
        text = PAGES[f"man1/rmqctl-{command.path.replace(' ', '-')}.1"]
        assert ".SH EXAMPLES" in text
        assert ".SH EXIT STATUS" in text


def test_an_option_has_one_metavar_of_a_word_in_every_command() -> None:
    found: dict[str, set[str]] = {}
    for command in COMMANDS:
        text = PAGES[f"man1/rmqctl-{command.path.replace(' ', '-')}.1"].replace("\\-", "-")
        for name, metavar in re.findall(r"^\\fB(--[a-z-]+).* ([A-Z]\S*)\\fR$", text, re.MULTILINE):
            found.setdefault(name, set()).add(metavar)
    assert len(found) > 40
    several = {name for name, metavars in found.items() if len(metavars) > 1}
    # put gives a message tags, others take an expression of them; --to names what a command makes or sets.
    assert several == {"--tags", "--to"}
    assert {metavar for metavars in found.values() for metavar in metavars if len(metavar) == 1} <= {"N"}


def test_the_format_page_names_the_magics_and_sizes() -> None:
    text = PAGES["man5/rmqstore.5"]
    for fact in ("0xDAA320A7", "0xDAA320AB", "0xCBD43194", "91 bytes", "4096 bytes"):
        assert fact in text


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("the log's\nend; a log\nend", ["log end", "log"]),
        ("entries of queues", ["queue", "entry"]),
        ("catalogs, queued", []),
        ("LMQs", ["LMQ"]),
    ],
)
def test_a_page_names_the_terms_of_the_glossary_that_it_uses(text: str, terms: list[str]) -> None:
    assert terms_in(text) == terms


def test_a_command_page_ends_with_the_terms_that_it_uses() -> None:
    page = (MAN / "man1/rmqctl-usage.1").read_text()
    assert page.splitlines()[-3:] == [".PP", ".BR rmqctl-glossary (7)", "explains: queue, log, commit log, segment."]


def test_a_flag_that_has_no_other_side_is_off_by_default() -> None:
    found = {
        (command.path, option.name): option.default
        for command in COMMANDS
        for option in _command(command.path).params
        if option.param_type_name == "option" and option.is_flag and not option.secondary_opts
    }
    assert len(found) > 100
    assert {name: default for name, default in found.items() if default not in (False, None)} == {}


def _command(path: str) -> Any:
    found: Any = get_command(app)
    for word in path.split():
        found = found.commands[word]
    return found


def test_pages_are_written_below_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manpages, "pages", lambda folder: {"man1/a.1": "A\n", "b.md": "é"})
    assert manpages.write_pages(tmp_path / "man") == [tmp_path / "man/man1/a.1", tmp_path / "man/b.md"]
    assert [(tmp_path / "man" / name).read_bytes() for name in ("man1/a.1", "b.md")] == [b"A\n", "é".encode()]
