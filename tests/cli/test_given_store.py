"""The store of --store: its folder and settings, what is noted of them, and the ways to open it."""

from __future__ import annotations

import contextlib
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rmqctl.given_store import GivenStore, _described
from rmqctl.options import Options
from store.errors import BadRequest, NotAStore, StoreError
from store.files import Filesystem
from tests.conftest import CopyOf
from tests.support.golden import golden


class FakeSession(SimpleNamespace):
    """A session that collects what is said."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            options=Options(**options), notes=[], warned=[], logged=[], met_findings=False, has_log=True,
            resources=ExitStack(), repeats_full_disk=lambda text: text == "full",
        )  # fmt: skip

    def note(self, text: str) -> None:
        self.notes.append(text)

    def warn(self, text: str) -> None:
        self.warned.append(text)

    def log(self, text: str) -> None:
        self.logged.append(text)


def given(**options: Any) -> tuple[GivenStore, FakeSession]:
    session = FakeSession(**options)
    return GivenStore(cast(Any, session)), session


@pytest.mark.parametrize(
    ("options", "root"),
    [
        ({"store": Path("/a")}, "/a"),
        ({"store": Path("/a"), "settings": {"storePathRootDir": "/b"}}, "/a"),
        ({"settings": {"storePathRootDir": "/b"}}, "/b"),
        ({"settings": {"storePathRootDir": "~/b"}}, str(Path("~/b").expanduser())),
        ({}, str(Options().store.expanduser())),
    ],
)
def test_the_folder_is_that_of_the_option_before_that_of_the_settings(options: dict[str, Any], root: str) -> None:
    store, _ = given(**options)
    assert (str(store.root), str(store.place)) == (root, root)


def test_a_uri_is_a_place_and_no_folder() -> None:
    store, _ = given(uri="s3://bucket/store")
    assert (store.place, store.find_served(), store.has_owner()) == ("s3://bucket/store", None, False)
    with pytest.raises(BadRequest, match="this command needs a store in a folder of this machine"):
        _ = store.root


def test_settings_are_of_the_file_then_of_the_option_then_of_the_command(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("deleteWhen=01\nfileReservedTime=1\nmaxMessageSize=1000\nstorePathCommitLog=/i\n")
    store, _ = given(store=Path("/a"), broker_conf=conf, settings={"deleteWhen": "02", "fileReservedTime": "2"})
    expected = {"deleteWhen": "02", "fileReservedTime": "3", "maxMessageSize": "1000", "storePathCommitLog": "/i"}
    assert store.settings(fileReservedTime="3") == expected
    assert store.settings_for_bundle() == {"deleteWhen": "02", "fileReservedTime": "2", "maxMessageSize": "1000"}


NOWHERE = "note: readOnlyCommitLogStorePaths has no effect without several folders in storePathCommitLog"


@pytest.mark.parametrize(
    ("store", "settings", "notes"),
    [
        ("/a", {}, []),
        ("/a", {"storePathRootDir": "/a"}, []),
        ("/a", {"storePathRootDir": "/b"}, ["note: /a is used, not storePathRootDir=/b"]),
        ("~/a", {"storePathRootDir": "~/a"}, []),
        (None, {"storePathRootDir": "/b"}, []),
        ("/a", {"readOnlyCommitLogStorePaths": "/r"}, [NOWHERE]),
        ("/a", {"readOnlyCommitLogStorePaths": "/r", "storePathCommitLog": "/x"}, [NOWHERE]),
        ("/a", {"readOnlyCommitLogStorePaths": "/r", "storePathCommitLog": "/x,/y"}, []),
        ("/a", {"readOnlyCommitLogStorePaths": ""}, []),
    ],
)
def test_settings_without_effect_are_noted_once(store: str | None, settings: dict[str, str], notes: list[str]) -> None:
    given_store, session = given(**({"store": Path(store)} if store is not None else {}), settings=settings)
    assert [given_store.settings(), given_store.settings()] == [settings] * 2
    assert session.notes == notes


@pytest.mark.parametrize(
    ("text", "count"),
    [("deleteWhen=01", ""), ("brokerName=b", "1 setting"), ("brokerName=b\nbrokerIP2=1", "2 settings")],
)
def test_settings_of_a_file_without_effect_are_counted(text: str, count: str, tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text(text)
    store, session = given(broker_conf=tmp_path / "broker.conf")
    store.settings()
    where = "`rmqctl config settings` lists them"
    said = f"note: without effect here: {count} of the broker configuration; {where}"
    assert session.notes == ([said] if count else [])


def test_files_are_read_as_of_a_store_or_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    store, _ = given(store=tmp_path)
    with pytest.raises(NotAStore):
        store.open_reader()
    assert store.open_reader(as_it_is=True).segments() == []
    nothing, _ = given(store=tmp_path / "nothing")
    for as_it_is in (False, True):
        with pytest.raises(NotAStore):
            nothing.open_reader(as_it_is=as_it_is)


def test_segments_of_another_size_than_the_setting_are_refused_unless_any_is_taken() -> None:
    root = golden("normal").store
    store, _ = given(store=root, settings={"mappedFileSizeCommitLog": "1024"})
    with pytest.raises(StoreError):
        store.open_reader()
    assert store.open_reader(any_size=True).segments()
    segment = root / "commitlog" / ("0" * 20)
    alone, _ = given(store=segment, settings={"mappedFileSizeCommitLog": "1024"})
    assert alone.open_reader(or_segment=True).is_segment
    with pytest.raises(StoreError):
        alone.open_reader()


def test_a_reader_knows_the_settings_of_queues() -> None:
    store, _ = given(store=golden("normal").store, settings={"storeType": "default", "brokerName": "a"})
    assert store.open_reached().queue_settings == (("storeType", "default"),)


@pytest.mark.parametrize("name", ["storePathCommitLog", "storePathDLedgerCommitLog"])
def test_the_log_of_one_store_is_not_that_of_several(name: str) -> None:
    root = str(golden("normal").store)
    store, _ = given(store=Path(root), settings={name: "/a,/b"})
    with pytest.raises(BadRequest, match=f"{name} names the log of one store, and several are given"):
        store.open_readers([root, f"{root}/../store"])


def test_several_stores_are_read_by_the_names_given() -> None:
    names = [str(golden(name).store) for name in ("normal", "aborted")]
    readers = given()[0].open_readers(names)
    assert [(name, reader.address) for name, reader in readers.items()] == [(name, name) for name in names]


@pytest.mark.parametrize(
    ("options", "is_early"),
    [
        ({}, True),
        ({"uri": "s3://b/s"}, False),
        ({"cold": True}, False),
        ({"nice": True}, False),
        ({"bwlimit": 1.0}, False),
    ],
)
def test_files_are_read_early_without_a_limit_on_reading(
    options: dict[str, Any], is_early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def early(*given: object) -> SimpleNamespace:
        asked.extend(given)
        return SimpleNamespace(close=lambda: asked.append("closed"))

    monkeypatch.setattr("store.files.EarlyRead", early)
    store, session = given(store=Path("/a"), **options)
    store.read_early("commitlog", "index", newest=2)
    session.resources.close()
    assert asked == ([[Path("/a/commitlog"), Path("/a/index")], 2, "closed"] if is_early else [])


@pytest.mark.parametrize(
    ("abort", "settings", "expected"),
    [
        (False, {}, {"checkCRCOnRecover": "false"}),
        (False, {"checkCRCOnRecover": "true"}, {}),
        (True, {}, {}),
    ],
)
def test_readers_get_messages_past_a_bad_body_of_a_closed_store(
    abort: bool, settings: dict[str, str], expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "commitlog").mkdir()
    if abort:
        (tmp_path / "abort").touch()
    opened: list[dict[str, str]] = []
    monkeypatch.setattr(GivenStore, "open", lambda _, **given: opened.append(given))
    given(store=tmp_path, settings=settings)[0].open_for_reading()
    assert opened == [expected]


def test_new_findings_are_warned_of_once_and_those_of_the_opening_are_not(tmp_path: Path) -> None:
    store, session = given(store=tmp_path)
    found = ["old"]
    opened = cast(Any, SimpleNamespace(opening_findings=["old"], describe_findings=lambda: found))
    store.warn_of_news(opened)
    found += ["first", "full"]
    for _ in range(2):
        store.warn_of_news(opened)
    found.append("second")
    store.warn_of_news(opened)
    assert (session.warned, session.met_findings) == (["first", "second"], False)


@pytest.mark.parametrize(("found", "is_met"), [(["old"], False), (["old", "new"], True)])
def test_findings_at_the_end_change_the_exit_code(found: list[str], is_met: bool) -> None:
    store, session = given()
    store._warn_of_findings(cast(Any, SimpleNamespace(opening_findings=["old"], describe_findings=lambda: found)))
    assert (session.met_findings, session.warned) == (is_met, found[1:])


def test_an_opened_store_is_logged_and_closed_at_the_end(copy_of: CopyOf) -> None:
    _, root = copy_of("normal")
    store, session = given(store=root, settings={"deleteWhen": "05"})
    session.interrupts = SimpleNamespace(deferred=contextlib.nullcontext)
    session.progress = lambda _: contextlib.nullcontext(SimpleNamespace(update=lambda *_: None))
    session.environment = SimpleNamespace(clock_ms=lambda: int(time.time() * 1000))
    opened = store.open(fileReservedTime="7")
    first, last = opened.min_log_offset, opened.max_log_offset
    session.resources.close()
    assert session.logged[0] == f"opening {root}, settings given: deleteWhen=05, fileReservedTime=7"
    assert session.logged[1].startswith(f"opened: log offsets {first} to {last}, settings given or inferred: ")
    assert (session.warned, session.notes, session.met_findings) == ([], [], False)
    with pytest.raises(StoreError):
        opened.get("TopicA", 0, 0)


def test_without_a_log_nothing_is_written_of_a_range() -> None:
    store, session = given()
    session.has_log = False
    store._log_range(cast(Any, None))
    assert session.logged == []


@pytest.mark.parametrize(("settings", "text"), [({}, "none"), ({"a": 1, "b": "x"}, "a=1, b=x")])
def test_settings_are_described_as_they_are_given(settings: dict[str, object], text: str) -> None:
    assert _described(settings) == text


def test_a_mirrors_folder_is_named_by_its_uri_once_it_is_reached() -> None:
    store, _ = given(uri="s3://b/s")
    assert store.in_words("/tmp/mirror/commitlog") == "/tmp/mirror/commitlog"
    store.__dict__["reached"] = (Path("/tmp/mirror"), None)
    assert store.in_words("/tmp/mirror/commitlog") == "s3://b/s/commitlog"
    local, _ = given(store=Path("/a"))
    local.__dict__["reached"] = (Path("/a"), None)
    assert local.in_words("/a/commitlog") == "/a/commitlog"


def test_an_unknown_setting_is_refused_with_its_option() -> None:
    with pytest.raises(BadRequest, match="--set"):
        given(settings={"bogus": "1"})[0].settings()


def test_files_are_reached_in_the_folder_or_in_the_mirror(tmp_path: Path) -> None:
    root = golden("normal").store
    segment = root / "commitlog" / ("0" * 20)
    local, _ = given(store=segment)
    assert local.open_reached(or_segment=True).is_segment
    with pytest.raises(StoreError):
        local.open_reached()
    (tmp_path / "config").mkdir()
    assert given(store=tmp_path)[0].open_reached().segments() == []
    remote, _ = given(uri="s3://b/s")
    remote.__dict__["reached"] = (root, Filesystem())
    reader = remote.open_reached()
    assert (reader.address, [file.number for file in reader.segments()][:1]) == (str(root), [0])


def test_a_bundle_of_the_option_is_read_where_it_is_unpacked() -> None:
    root = golden("normal").store
    store, _ = given(uri="bundle:///case.tar.zst")
    store.__dict__["reached"] = (root, Filesystem())
    assert store._reader("bundle:///case.tar.zst").address == str(root)


@pytest.mark.parametrize("has_process", [True, False])
def test_the_process_that_serves_the_store_is_named(has_process: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    client = SimpleNamespace(process_id=7, close=lambda: closed.append("closed")) if has_process else None
    monkeypatch.setattr("store.engine.serving.has_socket", lambda root: root == Path("/a"))
    monkeypatch.setattr("store.engine.serving.StoreClient.find", lambda root: client)
    store, session = given(store=Path("/a"))
    assert store.find_served() is client
    session.resources.close()
    note = "note: process 7 serves this store; requests go through its control socket"
    assert (session.notes, closed) == (([note], ["closed"]) if has_process else ([], []))
    assert given(store=Path("/b"))[0].find_served() is None


def test_damage_that_readers_passed_over_is_named_by_its_first_place() -> None:
    store, session = given()
    readers = [SimpleNamespace(damage={("b", 1): "two", ("a", 9): "one"}), SimpleNamespace(damage={})]
    store.warn_of_damage(cast(Any, readers))
    other = ", and at 1 other place"
    rest = "; messages there are left out, `rmqctl check` shows more"
    assert (session.warned, session.met_findings) == ([f"a, offset 9: one{other}{rest}"], True)
    store.warn_of_damage(cast(Any, [SimpleNamespace(damage={("c", 0): "alone"})]))
    assert session.warned[1:] == [f"c, offset 0: alone{rest}"]


def test_a_store_for_puts_says_what_its_opening_found_and_closes_at_the_end() -> None:
    store, session = given()
    session.interrupts = SimpleNamespace(deferred=contextlib.nullcontext)
    done: list[str] = []
    opened = SimpleNamespace(
        opening_findings=["torn"], notes=["built"], describe_findings=lambda: ["torn", *done],
        close=lambda: done.append("closed"), config=SimpleNamespace(changed_settings=dict), min_log_offset=1,
        max_log_offset=2,
    )  # fmt: skip
    store._close_at_end(cast(Any, opened))
    assert (session.notes, session.warned) == (["note: built"], ["torn"])
    assert session.logged == ["opened: log offsets 1 to 2, settings given or inferred: none"]
    session.resources.close()
    assert session.warned == ["torn", "closed"]


def test_a_store_is_opened_for_writing_with_the_options_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr("store.open_store", lambda root, **options: asked.update(options, root=root))
    monkeypatch.setattr(GivenStore, "_close_at_end", lambda *_: None)
    store, session = given(store=Path("/a"), settings={"deleteWhen": "05"})
    session.interrupts = SimpleNamespace(deferred=contextlib.nullcontext)
    session.progress = lambda _: contextlib.nullcontext(SimpleNamespace(update=max))
    session.environment = SimpleNamespace(clock_ms=min)
    told = {"root": Path("/a"), "read_only": False, "clock": min, "progress": max}
    store.open_for_writing(settings={"fileReservedTime": "7"}, recover=True, force_empty_log=False, compat="5.3")
    settings = {"deleteWhen": "05", "fileReservedTime": "7"}
    assert asked == {**told, "settings": settings, "recover": True, "force_empty_log": False, "compat": "5.3"}
    asked.clear()
    store.open_to_serve(["clean"], recover=False, force_empty_log=True, listen=":1")
    assert asked == {
        **told, "settings": {"deleteWhen": "05"}, "recover": False, "force_empty_log": True, "services": ["clean"],
        "listen": ":1",
    }  # fmt: skip


def test_the_notes_of_a_store_that_is_looked_at_again_are_said_once() -> None:
    store, session = given(store=golden("corrupt-mid").store)
    session.progress = lambda _: contextlib.nullcontext(SimpleNamespace(update=lambda *_: None))
    session.environment = SimpleNamespace(clock_ms=lambda: 1_700_000_000_000)
    session.interrupts = SimpleNamespace(deferred=contextlib.nullcontext)
    opened = store.open()
    noted = list(session.notes)
    opened.refresh()
    session.resources.close()
    assert noted == session.notes
    assert [note.split(" because of")[0] for note in noted][-1] == "note: the log ends at 66765"
