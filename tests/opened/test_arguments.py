"""Arguments of public functions: a wrong one is refused by its name, before a file is opened or written."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import store
from store import (
    BadRequest,
    CheckOptions,
    Host,
    Message,
    MessageColumns,
    RebuildScope,
    ScanRules,
    StoreClient,
    StoreConfig,
    open_store,
    plan_recovery,
)
from store.engine.serving import ControlServer
from store.errors import WrongKind
from store.formats.given import check_path, check_real
from tests.support.snapshots import snapshot
from tests.support.stores import make_store

LARGE = 1 << 63
NO_PATH = (5, 0.5, b"/s", True, ["/s"])
NO_FLAG = (0, 1, 0.5, "true")
NO_TEXT = (5, 0.5, b"x", True, ["x"])
NO_NUMBER = (0.5, 1.0, "0", b"0", True, float("nan"), [1])
NO_CALL = (5, "x", True)
NO_NAMES: tuple[Any, ...] = ("schedule", 5, [5], True, b"", bytearray(), {}, {"schedule": 1})

KINDS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    **dict.fromkeys(("root", "path", "scratch", "opened", "to", "quarantine"), (NO_PATH, ("", "a\0b", "a\ud800"))),
    **dict.fromkeys(
        ("read_only", "recover", "force_empty_log", "as_is", "dry_run", "keep_index", "as_broker", "keep_offsets",
         "force", "commit", "one_call", "only_sound", "outer", "must_exist", "as_stored", "waits", "verify",
         "by_tags", "in_database", "keep", "queues", "index", "with_tags",
         "check_crc", "accept_v2", "by_place", "cuts_torn"), (NO_FLAG, ()),
    ),
    **dict.fromkeys(("clock", "note", "progress", "rebuild", "refuse", "on_action", "listener"), (NO_CALL, ())),
    **dict.fromkeys(("text", "transaction_id", "topic", "key", "group"), (NO_TEXT, ())),
    **dict.fromkeys(("ring", "verb", "table", "compat", "mode", "listen", "master"), (NO_TEXT, ("bogus",))),
    **dict.fromkeys(("services", "columns"), (NO_NAMES, (["bogus"],))),
    **dict.fromkeys(("queue_id", "begin_ms", "end_ms", "now_ms", "time_ms", "timeout_ms", "offset", "start", "end",
                     "store_timestamp_ms"), (NO_NUMBER, (LARGE,))),
    **dict.fromkeys(("log_offset", "free_bytes", "reserved_hours", "size", "count", "from_offset", "most", "passes",
                     "roll_window_slots", "threads", "confirmed"), (NO_NUMBER, (-1 - LARGE, LARGE))),
    "max_count": (NO_NUMBER, (-1 - LARGE, -1, LARGE)),
    **dict.fromkeys(("disk_used_percent", "sample_percent"), (("0", True, b"0"), (-1, 101, float("nan")))),
    **dict.fromkeys(("max_seconds", "timeout_s"), (("0", True, b"0"), (float("nan"), 10**400))),
    "stores": ((5, True, b"/s", b"", bytearray(), {}, {"/s": 1}, [b"/s"]), ("", [""], "a\0b", ["/s", "a\ud800"])),
    "settings": ((5, "x", ["maxMessageSize"], {5: 1}, {"maxMessageSize": 0.5}), ({"maxMessageSize": -1}, {"x": 1})),
    "fs": ((5, "x", True, Path("/")), ()),
    "config": ((5, {"maxMessageSize": 5}), ()),
    "worst": ((5, "certain"), ()),
    "scope": ((5, "Orders"), ()),
    "options": ((5, {}), ()),
    "filter": ((5, "x", True, False, b"", []), ()),
}  # fmt: skip
"""By the name of a parameter: values of a wrong kind, and wrong values of the right kind."""
LEAST = {"confirmed": 0, "passes": 1, "most": 1, "roll_window_slots": 1, "threads": 1}
FUNCTIONS = {name: value for name in store.__all__ if inspect.isfunction(value := getattr(store, name))}
CASES = [(name, one) for name, function in FUNCTIONS.items() for one in inspect.signature(function).parameters]
NEEDED: dict[str, dict[str, Any]] = {
    "find": {"text": "k"}, "plan_cleaning": {"now_ms": 0}, "plan_delay_offsets": {"time_ms": 0},
    "plan_resolve": {"transaction_id": "x", "commit": True},
}  # fmt: skip
WRITING = ("services", "recover", "force_empty_log", "listen", "master")


def wrong_values(name: str, default: object) -> Iterator[tuple[Any, type[BadRequest]]]:
    kinds, values = KINDS[name]
    yield from ((value, WrongKind) for value in kinds)
    yield from ((value, BadRequest) for value in values)
    if name in LEAST:
        yield LEAST[name] - 1, BadRequest
    if default is not None and name != "verb":
        yield None, WrongKind


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("arguments") / "store", 3)


@pytest.mark.parametrize(("function", "name"), CASES)
def test_a_wrong_argument_of_a_public_function_is_refused_by_its_name(function: str, name: str, root: Path) -> None:
    parameters = inspect.signature(FUNCTIONS[function]).parameters
    first = next(iter(parameters))
    before = snapshot(root)
    for value, error in wrong_values(name, parameters[name].default):
        by_place = {first: root, **NEEDED.get(function, {}), name: value}
        if function == "open_store" and name in WRITING:
            by_place["read_only"] = False
        store_at = by_place.pop(first)
        with pytest.raises(BadRequest) as refused:
            _run(FUNCTIONS[function], store_at, by_place)
        assert (type(refused.value), _names(refused.value, name, value)) == (error, True), (value, str(refused.value))
    assert snapshot(root) == before


def _run(function: Callable[..., Any], store_at: Any, given: dict[str, Any]) -> None:
    """Call a function, and begin what it returns."""
    with function(store_at, **given):
        pass


def _names(error: BadRequest, name: str, value: object) -> bool:
    return name in str(error) or isinstance(value, dict) or value in ("bogus", ["bogus"])


def test_the_checked_functions_are_those_of_the_library() -> None:
    assert {name for _, name in CASES} <= set(KINDS)
    assert len(FUNCTIONS) == 16


@pytest.mark.parametrize("made", [CheckOptions, RebuildScope, ScanRules])
def test_a_wrong_option_is_refused_by_its_name(made: type) -> None:
    for name, parameter in inspect.signature(made).parameters.items():
        for value, error in wrong_values(name, parameter.default):
            with pytest.raises(BadRequest) as refused:
                made(**{name: value})
            assert (type(refused.value), _names(refused.value, name, value)) == (error, True), (name, value)


ARGUMENTS: dict[str, Any] = {
    "topic": "T", "queue_id": 0, "offset": 0, "log_offset": 0, "key": "k", "time_ms": 0, "timeout_ms": 0, "count": 9,
    "message": Message("T"), "messages": [Message("T")], "listener": print,
}  # fmt: skip
"""Right values of the parameters that a method needs."""
MESSAGES = {"message", "messages", "message_filter", "store_timestamps_ms"}
"""These have their tests in tests/formats/test_given.py, and below."""


def methods(door: Any) -> Iterator[tuple[str, inspect.Signature]]:
    for name in dir(type(door)):
        member = inspect.getattr_static(type(door), name)
        if not name.startswith("_") and inspect.isfunction(member):
            yield name, inspect.signature(getattr(door, name))


@pytest.mark.parametrize("door", ["read-only", "embedded", "served"])
def test_a_wrong_argument_of_a_method_is_refused_by_its_name(door: str, tmp_path: Path) -> None:
    with open_store(tmp_path / "s", read_only=False, services=[]) as owner, ControlServer(owner):
        owner.put(Message("T"))
        owner.catch_up()
        opened: dict[str, Callable[[], Any]] = {
            "read-only": lambda: open_store(tmp_path / "s"),
            "embedded": lambda: owner,
            "served": lambda: StoreClient.connect(tmp_path / "s"),
        }
        end = owner.max_log_offset
        with opened[door]() as given:
            for method, signature in methods(given):
                for name in signature.parameters.keys() - MESSAGES:
                    _refuses(given, method, name, signature)
            assert owner.max_log_offset == end


def _refuses(given: Any, method: str, name: str, signature: inspect.Signature) -> None:
    needed = {one.name: ARGUMENTS[one.name] for one in signature.parameters.values() if one.default is one.empty}
    for value, error in wrong_values(name, signature.parameters[name].default):
        with pytest.raises(BadRequest) as refused:
            getattr(given, method)(**{**needed, name: value})
        assert (type(refused.value), _names(refused.value, name, value)) == (error, True), (method, name, value)


@pytest.mark.parametrize(("method", "wrong"), [
    (method, {name: value})
    for method, name in (("put", "message"), ("put_replayed", "message"), ("put_batch", "messages"),
                         ("put_many", "messages"), ("put_many_replayed", "messages"))
    for value in (5, None, "x", b"x", b"", [5], {"topic": "T"})
] + [("put_many_replayed", {"messages": MessageColumns.of([Message("T")]), "store_timestamps_ms": value})
     for value in (5, "x", [1], [0.5])])  # fmt: skip
def test_what_is_no_message_is_not_put(method: str, wrong: dict[str, Any], tmp_path: Path) -> None:
    with open_store(tmp_path / "s", read_only=False) as store:
        with pytest.raises(BadRequest, match=next(reversed(wrong)).removesuffix("s")):
            getattr(store, method)(**wrong)
        assert store.max_log_offset == 0


@pytest.mark.parametrize(("call", "wrong", "reason"), [
    (Host.parse, 5, "host is not text: 5"), (Host.parse, b"1:1", "host is not text: b'1:1'"),
    (Host.decode, 5, "data is not bytes, but int"),
    (Host.decode, bytes(7), "data is not a host of 8 or 20 bytes, but of 7"),
    (Host.decode, bytes(19), "data is not a host of 8 or 20 bytes, but of 19"),
    (MessageColumns.of, 5, "messages is not a Sequence, but int"),
    (MessageColumns.of, b"", "messages is not a Sequence, but bytes"),
    (MessageColumns.from_arrow, 5, "batch is not a RecordBatch, but int"),
    (StoreConfig().with_settings, 5, "settings is not a Mapping, but int"),
    (StoreConfig().with_settings, ["x"], "settings is not a Mapping, but list"),
])  # fmt: skip
def test_a_value_is_made_of_its_own_kind(call: Callable[[Any], object], wrong: object, reason: str) -> None:
    with pytest.raises(BadRequest) as refused:
        call(wrong)
    assert str(refused.value) == reason


@pytest.mark.parametrize(("wrong", "reason"), [
    ({"quarantine": 5}, "quarantine is not a path: 5"), ({"keep": 1}, "keep is neither true nor false: 1"),
    ({"on_action": 5}, "on_action cannot be called: it is int"),
])  # fmt: skip
def test_a_change_is_applied_with_right_arguments(wrong: dict[str, Any], reason: str, tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 3)
    (root / "checkpoint").unlink()
    with plan_recovery(root) as change:
        before = snapshot(root)
        with pytest.raises(WrongKind) as refused:
            change.apply(**wrong)
        assert (str(refused.value), snapshot(root)) == (reason, before)


@pytest.mark.parametrize("given", [
    {"services": ["bogus"]}, {"services": "cleaning"}, {"master": "127.0.0.1:1"}, {"listen": "127.0.0.1"},
    {"settings": {"maxMessageSize": -1}}, {"settings": {"mappedFileSizeCommitLog": 0.5}}, {"clock": 5}, {"fs": 5},
])  # fmt: skip
def test_no_store_is_created_for_a_wrong_argument(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(BadRequest):
        open_store(tmp_path / "s", read_only=False, **given)
    assert list(tmp_path.iterdir()) == []


def test_a_master_is_followed_by_a_slave_alone(tmp_path: Path) -> None:
    for role, is_slave in {"SLAVE": True, "ASYNC_MASTER": False, "SYNC_MASTER": False}.items():
        settings = {"brokerRole": role}
        if is_slave:
            open_store(tmp_path / role, read_only=False, settings=settings, master="127.0.0.1:1").close()
            continue
        with pytest.raises(BadRequest) as refused:
            open_store(tmp_path / role, read_only=False, settings=settings, master="127.0.0.1:1")
        assert str(refused.value) == "master is given, and the setting brokerRole is not SLAVE"


@pytest.mark.parametrize(("value", "error"), [
    (0, None), (0.0, None), (100, None), (99.5, None), (-0.1, BadRequest), (100.1, BadRequest), (1 << 2000, BadRequest),
    (float("nan"), BadRequest), (float("inf"), BadRequest), ("1", WrongKind), (True, WrongKind), (None, WrongKind),
])  # fmt: skip
def test_a_number_with_a_fraction_is_in_its_range(value: Any, error: type[BadRequest] | None) -> None:
    with nullcontext() if error is None else pytest.raises(error, match=r"^share is not (a number|in 0\.\.100): "):
        check_real("share", value, most=100)


@pytest.mark.parametrize(("value", "reason"), [
    ("/s", None), (Path("/s"), None), (".", None), (Path(), None), ("", "p is empty"),
    ("s3://b/s", None), ("\udc80", None), (5, "p is not a path: 5"),
    (b"/s", "p is not a path: b'/s'"), ("a\0b", "p holds a zero byte: 'a\\x00b'"),
    ("\ud800", "a lone surrogate in p: '\\ud800'"),
])  # fmt: skip
def test_a_path_is_text_that_a_file_can_have(value: Any, reason: str | None) -> None:
    with nullcontext() if reason is None else pytest.raises(BadRequest, match=f"^{re.escape(reason or '')}$"):
        check_path("p", value)
