"""What is stable stays: no promise of tests/promises.txt is taken away without a deprecation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

import store
from rmqctl import deprecated
from rmqctl.commands import ALIASES
from rmqctl.deprecated import DEPRECATED
from tests.cli.running import rmqctl
from tests.support.promises import MADE_BY_CALLERS, broken, promises, recorded
from tests.support.stores import make_store

PAGE = Path(__file__).parents[1] / "man" / "rmqctl-stability.md"
NOW = promises()


def test_every_promise_is_kept() -> None:
    assert broken(recorded(), NOW, DEPRECATED, store.__version__) == []


def test_each_addition_is_recorded() -> None:
    assert sorted(NOW - {*recorded()}) == [], "run: python -m tests.support.promises"


def test_a_promise_of_each_kind_is_among_them() -> None:
    assert {
        "exit 3 LOCKED",
        "alias audit is check --fleet",
        "variable RMQCTL_STORE",
        "global --store is ~/store by default",
        "command get",
        "command get needs nothing",
        "command get takes TOPIC as 1",
        "command get --limit takes a value",
        "command get --max takes a value",
        "command get --limit is 32 by default",
        "command get --body may be hex",
        "command get --follow is a flag",
        "command put --key may be repeated",
        "command export needs --to",
        "document doctor is rmqctl.doctor/1",
        "document doctor names diagnoses[].rank: integer",
        "document check names findings[].kind = queue-gap",
        "store find",
        "store find needs root, text",
        "store find takes text as 2",
        "store find takes most",
        "store Message needs topic",
        "store StoredMessage.queue_offset",
        "store errors.StoreLocked",
        "store PutStatus.PUT_OK",
    } < NOW


def of(*lines: str) -> set[str]:
    return {"command get", "command get --limit takes a value", *lines}


LIMIT = {"command get --limit": ("1.1", "--most")}
BROKEN: dict[str, tuple[Iterable[str], Mapping[str, tuple[str, str]], str, list[str]]] = {
    "an option is taken away": ({"command get"}, {}, "1.1.0", ["command get --limit takes a value"]),
    "an option takes no value any more": (
        {"command get", "command get --limit is a flag"}, {}, "1.1.0", ["command get --limit takes a value"],
    ),
    "an option is taken away in the version that deprecates it": (
        {"command get"}, LIMIT, "1.1.9", ["command get --limit takes a value"],
    ),
    "an option is taken away one minor version later": ({"command get"}, LIMIT, "1.2.0", []),
    "an option is taken away one major version later": ({"command get"}, LIMIT, "2.0.0", []),
    "another option is deprecated": (
        {"command get"}, {"command get --lim": ("1.1", "x")}, "1.2.0", ["command get --limit takes a value"],
    ),
    "a command is deprecated with its options": (set(), {"command get": ("1.1", "read")}, "1.2.0", []),
    "a command has another name, and the former is an alias": (
        {"alias get is read", "command read", "command read --limit takes a value"}, {}, "1.1.0", [],
    ),
    "an alias has fewer options": (
        {"alias get is read", "command read"}, {}, "1.1.0", ["command get --limit takes a value"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_promise_is_broken_when(case: str) -> None:
    now, marked, version, expected = BROKEN[case]
    assert broken(of(), set(now), marked, version) == expected


DOCUMENT = {"document get is rmqctl.get/1", "document get names flag: integer", "document get names size: integer"}

GOES_UP = "its number has to go up, as a name went"


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (DOCUMENT - {"document get names flag: integer"}, [f"document get is rmqctl.get/1: {GOES_UP}"]),
        ({"document get is rmqctl.get/2", "document get names size: integer"}, []),
        ({"document get is rmqctl.get/2"}, ["document get names size: integer"]),
    ],
)  # fmt: skip
def test_the_number_of_a_document_goes_up_with_a_name_that_goes(now: set[str], expected: list[str]) -> None:
    assert broken(DOCUMENT, now, {"document get names flag": ("1.0", "sys_flag")}, "1.1.0") == expected


@pytest.mark.parametrize(
    ("before", "now", "is_kept"),
    [
        ("tag: null or string", "tag: string", True),
        ("tag?: string", "tag: string", True),
        ("value: any", "value: string", True),
        ("tag: string", "tag: null or string", False),
        ("tag: string", "tag?: string", False),
        ("tag: string", "tags: string", False),
        ("tag: string", "tag: integer", False),
    ],
)
def test_a_name_of_a_document_may_be_narrowed_and_not_widened(before: str, now: str, is_kept: bool) -> None:
    before, now = f"document get names {before}", f"document get names {now}"
    assert broken({before}, {now}, {}, "1.1.0") == ([] if is_kept else [before])


def test_the_number_of_a_document_does_not_go_up_for_nothing() -> None:
    now = {line.replace("/1", "/2") for line in DOCUMENT}
    assert broken(DOCUMENT, now, {}, "1.1.0") == ["document get is rmqctl.get/1"]


@pytest.mark.parametrize(
    ("key", "words", "warning"),
    [
        ("command get --limit", "get T --limit 2", "--limit is deprecated since 1.1"),
        ("command get --limit", "get T --max 2", "--limit is deprecated since 1.1"),
        ("command get --max", "get T --max 2", "--max is deprecated since 1.1"),
        ("command get --max", "get T --limit 2", ""),
        ("command get", "get T", "get is deprecated since 1.1"),
        ("alias timer rebuild", "timer rebuild --dry-run", "timer rebuild is deprecated since 1.1"),
        ("alias audit", "audit", "audit is deprecated since 1.1"),
        ("command get --limit", "get T", ""),
        ("command get --limit", "info", ""),
    ],
)
def test_what_is_deprecated_works_with_a_warning(
    key: str, words: str, warning: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_store(tmp_path / "store", 1)
    before = rmqctl(*words.split(), store=root)
    monkeypatch.setattr(deprecated, "DEPRECATED", {key: ("1.1", "another")})
    run = rmqctl(*words.split(), store=root)
    said = f"warning: {warning}, and removed by the next minor version: use another\n" if warning else ""
    assert (run.code, run.out, run.err) == (before.code, before.out, said + before.err)


def test_the_page_lists_what_is_listed_here() -> None:
    text = PAGE.read_text("utf-8")
    assert all(f"`{name}`" in text for name in (*MADE_BY_CALLERS, *ALIASES))
