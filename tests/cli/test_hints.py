"""Every code that an error of the engine carries has a hint, and the engine itself names no option."""

from __future__ import annotations

import re
from pathlib import Path

import store
from rmqctl.hints import HINTS, describe
from store.errors import BadRequest

SOURCES = [path.read_text("utf-8") for path in Path(store.__file__).parent.rglob("*.py")]


def test_every_code_has_a_hint_and_every_hint_a_code() -> None:
    codes = {code for text in SOURCES for code in re.findall(r'code="([a-z-]+)"', text)}
    codes |= {code for text in SOURCES for code in re.findall(r'error\.code(?:, error\.subject)? = "([a-z-]+)"', text)}
    codes |= {code for text in SOURCES for code in re.findall(r'code = None if nearest else "([a-z-]+)"', text)}
    assert codes == set(HINTS)


def test_a_hint_names_what_the_error_is_about() -> None:
    error = BadRequest("it was interrupted", code="interrupted-change", subject=("2026-recover",))
    assert describe(error) == "it was interrupted; run `rmqctl undo 2026-recover` first"
    assert describe(BadRequest("no", hint="yes")) == "no; yes"
    assert describe(ValueError("other")) == "other"


def test_no_hint_of_the_engine_names_an_option_of_the_command_line() -> None:
    hints = [hint for text in SOURCES for hint in re.findall(r'hint=f?"([^"]*)"', text)]
    assert [hint for hint in hints if re.search(r"(^|[ `])--[a-z]", hint) and "Spark" not in hint] == []
