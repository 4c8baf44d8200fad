"""A session: its options, what it says and where, its questions, and the look of its results."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from rmqctl.options import Color, Format, TimeForm
from rmqctl.result import Result, Table
from store.errors import BadRequest, StoreIOError
from tests.support.sessions import Terminal, give, said, session


def test_options_after_the_command_win_and_settings_add_up(tmp_path: Path) -> None:
    one = session()
    give(one, store=str(tmp_path), settings=["a=1", "b=1"], format="json", quiet=True)
    one.take_options({"settings": ["b=2"], "format": "csv"})
    options = one.options
    assert (options.store, options.settings, options.format, options.quiet) == (
        tmp_path,
        {"a": "1", "b": "2"},
        Format.CSV,
        True,
    )


@pytest.mark.parametrize(
    ("settings", "is_refused"),
    [([], False), (["deleteWhen=04"], False), (["fileReservedTime=x"], True), (["bogus=1"], True)],
)
def test_impossible_settings_are_refused(settings: list[str], is_refused: bool, tmp_path: Path) -> None:
    one = session()
    give(one, store=str(tmp_path), settings=settings)
    if is_refused:
        with pytest.raises(BadRequest):
            one.check_settings()
    else:
        one.check_settings()


def test_a_configuration_is_checked_without_settings_too(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text("fileReservedTime=x\n")
    one = session()
    give(one, store=str(tmp_path), broker_conf=str(tmp_path / "broker.conf"))
    with pytest.raises(BadRequest, match="fileReservedTime needs a whole number"):
        one.check_settings()


@pytest.mark.parametrize("quiet", [False, True])
def test_notes_are_silenced_and_warnings_and_failures_are_not(quiet: bool) -> None:
    one = session()
    give(one, quiet=quiet)
    one.note("note: a")
    one.warn("b")
    one.fail("c")
    assert said(one) == ("" if quiet else "note: a\n") + "warning: b\nrmqctl: c\n"


@pytest.mark.parametrize(
    ("before", "text", "is_repeated"),
    [
        ("no space left on device", "x: no space left on device", True),
        ("y: no space left on device", "x: no space left on device", True),
        ("no space left on device", "x: permission denied", False),
        ("permission denied", "x: no space left on device", False),
        ("permission denied", "permission denied", False),
    ],
)
def test_a_full_disk_is_told_once(before: str, text: str, is_repeated: bool) -> None:
    one = session()
    assert not one.repeats_full_disk(text)
    one.fail(before)
    assert one.repeats_full_disk(text) is is_repeated


@pytest.mark.parametrize(
    ("stdout", "stderr", "form", "is_held"),
    [
        (True, True, "auto", True),
        (True, False, "auto", False),
        (False, True, "auto", False),
        (True, True, "json", False),
        (False, True, "table", False),
    ],
)
def test_notes_wait_for_the_verdict_where_a_terminal_shows_both(
    stdout: bool, stderr: bool, form: str, is_held: bool
) -> None:
    one = session(stdout=stdout, stderr=stderr)
    give(one, format=form)
    one.hold_notes()
    one.note("note: a")
    one.warn("b")
    assert said(one) == ("" if is_held else "note: a\nwarning: b\n")
    one.show(Result("x", verdict="done"))
    assert said(one) == ("\n" if is_held else "") + "note: a\nwarning: b\n"
    one.note("note: c")
    assert said(one).endswith("warning: b\nnote: c\n")


def test_a_failure_releases_what_is_held() -> None:
    one = session(stdout=True, stderr=True)
    one.hold_notes()
    one.note("note: a")
    one.fail("b")
    assert said(one) == "note: a\nrmqctl: b\n"


@pytest.mark.parametrize(("held", "lines"), [([], 0), (["a"], 2), (["a", "b\nc"], 4)])
def test_held_lines_are_counted_with_the_blank_one_above_them(held: list[str], lines: int) -> None:
    one = session(stdout=True, stderr=True)
    one.hold_notes()
    for text in held:
        cast(Any, one)._held.append(text)
    assert one._held_lines() == lines


@pytest.mark.parametrize(("more", "shown"), [(0, "x" * 2000), (1, "x" * 1999 + "…")])
def test_a_line_is_cut_where_it_is_too_long(more: int, shown: str) -> None:
    one = session()
    one.note("x" * (2000 + more))
    assert said(one) == shown + "\n"


def test_lines_are_folded_at_a_terminals_width_and_controls_are_escaped() -> None:
    one, piped = session(stderr=True, width=10), session(width=10)
    for each in (one, piped):
        each.note("one two three\x1b")
    assert (said(one), said(piped)) == ("one two\nthree\\x1b\n", "one two three\\x1b\n")


@pytest.mark.parametrize(
    ("answer", "is_yes"),
    [(b"y\n", True), (b"YES \n", True), (b"yes", True), (b"", False), (b"n\n", False), (b"yess\n", False),
     (b"\xff\n", False)],
)  # fmt: skip
def test_a_question_wants_a_yes(answer: bytes, is_yes: bool) -> None:
    one = session(stdin=answer)
    assert one.ask("Really?") is is_yes
    assert said(one) == "Really? [y/N] "


def test_a_question_releases_what_is_held() -> None:
    one = session(stdout=True, stderr=True, stdin=b"y\n")
    one.hold_notes()
    one.note("note: a")
    assert one.ask("Really?")
    assert said(one) == "note: a\nReally? [y/N] "


@pytest.mark.parametrize(
    ("stdout", "options", "form"),
    [
        (True, {}, Format.TABLE),
        (False, {}, Format.PLAIN),
        (False, {"color": "always"}, Format.TABLE),
        (True, {"color": "never"}, Format.TABLE),
        (True, {"format": "json"}, Format.JSON),
    ],
)
def test_the_form_of_a_result_follows_the_terminal(stdout: bool, options: dict[str, Any], form: Format) -> None:
    one = session(stdout=stdout)
    give(one, **options)
    assert one.format is form


@pytest.mark.parametrize(
    ("stdout", "color", "variables", "has_color"),
    [
        (True, "auto", {}, True),
        (False, "auto", {}, False),
        (True, "auto", {"NO_COLOR": "1"}, False),
        (True, "auto", {"NO_COLOR": ""}, True),
        (True, "auto", {"TERM": "dumb"}, False),
        (True, "auto", {"TERM": "xterm"}, True),
        (False, "always", {"NO_COLOR": "1"}, True),
        (True, "never", {}, False),
    ],
)
def test_colors_follow_the_option_then_the_variables_then_the_terminal(
    stdout: bool, color: str, variables: dict[str, str], has_color: bool
) -> None:
    one = session(stdout=stdout, **variables)
    give(one, color=color)
    assert one.color is has_color
    assert (one.look().color, one.look(color=True).color, one.look(color=False).color) == (has_color, True, False)


@pytest.mark.parametrize(
    ("stdout", "wide", "size"), [(True, False, (40, 24)), (True, True, (None, None)), (False, False, (None, None))]
)
def test_a_result_fits_a_terminal(stdout: bool, wide: bool, size: tuple[int | None, int | None]) -> None:
    one = session(stdout=stdout)
    give(one, wide=wide, time="local")
    look = one.look()
    assert (look.width, look.height, look.times) == (*size, TimeForm.LOCAL)


@pytest.mark.parametrize(
    ("stderr", "options", "is_shown"),
    [(True, {}, True), (False, {}, False), (True, {"no_progress": True}, False), (True, {"quiet": True}, False)],
)
def test_progress_is_shown_on_a_terminal(stderr: bool, options: dict[str, Any], is_shown: bool) -> None:
    one = session(stderr=stderr)
    give(one, **options)
    bar = one.progress("reading", 5, "records")
    assert (bar.title, bar.total, bar.unit) == ("reading", 5, "records")
    assert (cast(Any, bar)._stream is one.environment.stderr) is is_shown


@pytest.mark.parametrize(
    ("target", "is_refused"),
    [("store", True), ("store/new", True), ("store/commitlog/x", True), ("other", False), ("store2", False),
     (None, False)],
)  # fmt: skip
@pytest.mark.parametrize("given", ["store", "store/commitlog/0"])
def test_a_target_inside_of_a_store_is_refused(
    target: str | None, is_refused: bool, given: str, tmp_path: Path
) -> None:
    (tmp_path / "store/commitlog").mkdir(parents=True)
    (tmp_path / "store/commitlog/0").touch()
    place = tmp_path / target if target is not None else None
    is_inside = is_refused and (given == "store" or "commitlog" in str(target))
    if is_inside:
        with pytest.raises(typer.BadParameter, match="which is only read; name another folder"):
            session().refuse_inside(tmp_path / given, None, place)
    else:
        session().refuse_inside(tmp_path / given, place)


def test_a_target_beside_a_file_that_is_no_segment_or_a_folder_of_that_name_is_outside(tmp_path: Path) -> None:
    (tmp_path / "commitlog/store").mkdir(parents=True)
    (tmp_path / "file").touch()
    session().refuse_inside(tmp_path / "file", tmp_path / "new")
    session().refuse_inside(tmp_path / "commitlog/store", tmp_path / "commitlog/new")


def test_a_scratch_folder_is_the_temporary_one_until_the_session_ends(tmp_path: Path) -> None:
    before, one = tempfile.tempdir, session()
    (tmp_path / "scratch").mkdir()
    give(one, store=str(tmp_path / "store"), scratch=str(tmp_path / "scratch"))
    one.take_scratch()
    assert tempfile.tempdir == str(tmp_path / "scratch")
    one.resources.close()
    assert tempfile.tempdir == before
    give(one, store=str(tmp_path), scratch=str(tmp_path / "scratch"))
    with pytest.raises(typer.BadParameter):
        one.take_scratch()


@pytest.mark.parametrize("nice", [False, True])
def test_the_priority_is_lowered_on_demand_and_the_last_pause_is_made_at_the_end(
    nice: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = list[str]()
    monkeypatch.setattr("store.files.lower_priority", lambda: done.append("lowered"))
    monkeypatch.setattr("store.files.Filesystem.finish_pace", lambda files: done.append("finished"))
    one = session()
    give(one, nice=nice)
    one.take_pace()
    assert done == ["lowered"] * nice
    one.resources.close()
    assert done == [*["lowered"] * nice, "finished"]


def test_retries_of_remote_requests_are_set_until_the_session_ends() -> None:
    from store.files import Filesystem, RemoteRequests

    before, pace, one = RemoteRequests.retries, Filesystem.pace, session()
    give(one, remote_retries=before + 3)
    one.take_pace()
    assert (RemoteRequests.retries, Filesystem.pace is pace) == (before + 3, False)
    one.resources.close()
    assert (RemoteRequests.retries, Filesystem.pace) == (before, pace)


def test_a_time_is_parsed_by_the_clock_and_another_text_refused() -> None:
    assert session().parse_time("1700000000000", "--from") == 1_700_000_000_000
    with pytest.raises(typer.BadParameter) as caught:
        session().parse_time("soon", "--from")
    assert caught.value.param_hint == "--from"


def test_a_log_has_what_is_said_and_what_is_silenced(tmp_path: Path) -> None:
    one = session()
    give(one, log=str(tmp_path / "log"), quiet=True)
    assert not one.has_log
    one.words = ["info"]
    one.start_log()
    assert one.has_log
    one.note("note: a")
    one.warn("b")
    one.fail("c")
    one.log("d")
    one.ask("e?")
    one.end_log()
    logging.getLogger("rmqctl").error("after the end")
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0].endswith(f"in {Path.cwd()}: rmqctl info")
    assert [line.split(" ", 2)[2] for line in lines[1:]] == [
        "INFO note: a",
        "WARNING warning: b",
        "ERROR rmqctl: c",
        "INFO d",
        "INFO asked: e? no",
    ]
    assert not one.has_log
    assert said(one) == "warning: b\nrmqctl: c\ne? [y/N] "


def test_what_is_said_is_there_once_beside_the_log_on_stderr() -> None:
    one = session()
    give(one, verbose=True)
    one.start_log()
    one.note("note: a")
    one.log("d")
    one.end_log()
    lines = said(one).splitlines()[1:]
    assert (lines[0], lines[1].split(" ", 2)[2], lines[2:]) == ("note: a", "INFO d", [])


def test_lines_and_questions_are_flushed() -> None:
    one, flushed = session(stdin=b"y\n"), list[str]()
    cast(Any, one.environment.stderr).flush = lambda: flushed.append(said(one))
    one.note("note: a")
    assert one.ask("b?")
    assert flushed == ["note: a\n", "note: a\nb? [y/N] "]


def test_a_result_is_printed_in_its_form() -> None:
    one = session()
    give(one, format="csv")
    one.show(Result("x", tables=[Table("rows", [{"a": 1, "b": "x"}])]))
    assert cast(Terminal, one.environment.stdout).getvalue() == "a,b\r\n1,x\r\n"


def test_lost_pages_are_told_only_where_they_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    caught = list[bool]()
    monkeypatch.setattr("store.catch_lost_pages", lambda: caught.append(True))
    monkeypatch.setattr("store.files.settle_lost_pages", lambda: [StoreIOError("a page is lost", file="x")])
    one = session()
    assert (one.report_lost_pages(), said(one), caught) == (False, "", [])
    one.catch_lost_pages()
    assert (one.report_lost_pages(), said(one), caught) == (True, "rmqctl: x: a page is lost\n", [True])


def test_an_automatic_color_is_the_default() -> None:
    assert (session().options.color, session().options.format) == (Color.AUTO, Format.AUTO)


def test_a_line_ends_the_opening() -> None:
    one, ended = session(stderr=True), list[str]()
    for say in (lambda: one.note("note: a"), lambda: one.ask("b?"), lambda: one.show(Result("x"))):
        cast(Any, one)._opening = SimpleNamespace(end=lambda: ended.append(said(one)))
        say()
    assert ended == ["", "note: a\n", "note: a\nb? [y/N] "]


@pytest.mark.parametrize("stderr", [False, True])
def test_the_end_of_a_session_ends_the_opening(stderr: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    one, ended = session(stderr=stderr), list[bool]()
    opening = SimpleNamespace(end=lambda: ended.append(True))
    monkeypatch.setattr("rmqctl.progress.Opening", lambda stream: opening)
    one.show_opening()
    one.resources.close()
    assert ended == [True] * stderr


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (StoreIOError("x"), {"log": "/l"}),
        (BadRequest("x"), {"log": "/l", "store": "/s", "settings": ["b=1"]}),
        (typer.BadParameter("x"), {"log": "/l", "store": "/s", "settings": ["b=1"]}),
    ],
)
def test_defaults_that_are_in_use_may_have_caused_an_error(error: Exception, found: dict[str, object]) -> None:
    one = session()
    one.defaults = {"log": "/l", "scratch": "/t", "store": "/s", "settings": ["a=1", "b=1"], "quiet": True}
    give(one, log="/l", scratch="/other", store="/s", settings=["a=1", "b=1", "a=2"], quiet=True)
    assert one.defaults_of(error) == found
    one.defaults = {"bwlimit": "7"}
    assert one.defaults_of(error) == {}
