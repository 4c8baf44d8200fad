"""The manual pages in the repository are what the application says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqctl.commands import COMMANDS
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


def test_the_format_page_names_the_magics_and_sizes() -> None:
    text = PAGES["man5/rmqstore.5"]
    for fact in ("0xDAA320A7", "0xDAA320AB", "0xCBD43194", "91 bytes", "4096 bytes"):
        assert fact in text
