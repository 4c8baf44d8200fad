"""A backup that follows a broker, and what a restored store is told with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rmqctl.backend import Backend
from rmqctl.backing_up import follow_broker, restore_cluster, restored_facts, say_restored
from store.engine.ha import DEFAULT_EVERY_S
from store.errors import LinkLost
from store.verbs import CreateOptions
from tests.support.sessions import give, said, session


@pytest.mark.parametrize(("every", "seconds"), [(None, DEFAULT_EVERY_S), (7.0, 7.0)])
@pytest.mark.parametrize("has_controller", [False, True])
def test_a_follower_notes_its_backup_and_defers_signals_from_there_on(
    every: float | None, seconds: float, has_controller: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, bars, events = session(), list[Any](), list[object]()
    give(one, store=str(tmp_path))

    class Bar(SimpleNamespace):
        def __enter__(self) -> Bar:
            events.append(f"{self.title} begins")
            return self

        def __exit__(self, *error: object) -> None:
            events.append(f"{self.title} ends")

        def update(self, done: int) -> None:
            events.append((self.title, done))

    def make_bar(title: str) -> Bar:
        bars.append(Bar(title=title))
        return bars[-1]

    def follow(root: Path, address: object, target: object, how: Any, fs: object, clock: Any) -> str:
        assert (root, str(address), target, clock()) == (tmp_path, "127.0.0.1:10912", "folder", 1_700_000_000_000)
        assert (how.every_s, how.has_controller, how.create) == (seconds, has_controller, options)
        assert how.should_stop == one.interrupts.asked
        how.create.progress(3)
        how.on_created(SimpleNamespace(id="2026-a", last_store_timestamp_ms=1000))
        how.on_progress(5)
        how.on_lost(LinkLost("refused"))
        how.on_grown(SimpleNamespace(id="2026-a", last_store_timestamp_ms=2000))
        return "made"

    @contextmanager
    def deferred() -> Iterator[None]:
        events.append("signals wait")
        yield
        events.append("signals come")

    monkeypatch.setattr(one.interrupts, "deferred", deferred)
    monkeypatch.setattr(one, "progress", make_bar)
    monkeypatch.setattr("store.engine.ha.follow_master", follow)
    options, folder = CreateOptions(), "folder"
    made: Any = follow_broker(one, "127.0.0.1:10912", folder, options, every, has_controller=has_controller)  # type: ignore[arg-type]
    assert made == "made"
    received = "received; backed up to 1970-01-01T00:00:0"
    assert events == [
        "copying the log begins", ("copying the log", 3), "copying the log ends", "signals wait",
        "receiving begins", (f"{received}1.000Z", 5), f"{received}2.000Z ends", "signals come",
    ]  # fmt: skip
    assert said(one).splitlines() == [
        "note: backup 2026-a is made, and follows 127.0.0.1:10912 from here on",
        "note: refused; trying again",
    ]


def test_a_backup_is_restored_by_this_process_without_a_cluster() -> None:
    one = session()
    with restore_cluster(one, Backend(False, "why", is_second_choice=True), None, None) as tasks:
        assert tasks is None
    assert said(one) == "engine: this process (why)\n"


@pytest.mark.parametrize(("time_ms", "is_past"), [(None, False), (999, False), (1000, False), (1001, True)])
def test_a_moment_past_the_backup_is_warned_of(time_ms: int | None, is_past: bool) -> None:
    one = session()
    manifest, moment = SimpleNamespace(ended_ms=1000), SimpleNamespace(time_ms=time_ms)
    made = SimpleNamespace(remarks=["a remark"], findings=["a finding"])
    say_restored(one, manifest, moment, made)  # type: ignore[arg-type]
    ended = "the backup was made at 1970-01-01T00:00:01.000Z"
    past = f"warning: {ended}, before --at: messages stored later are not in it"
    assert said(one).splitlines() == [*[past] * is_past, "a remark", "warning: a finding"]


def test_the_facts_of_a_restored_store_are_those_of_its_report() -> None:
    made: Any = SimpleNamespace(
        log_start=1, log_end=2, last_store_timestamp_ms=3, record_count=4, expired_queue_count=5,
        bumped_queue_count=6, findings=["a"] * 7,
    )  # fmt: skip
    assert restored_facts(made) == {
        "log_start": 1, "log_end": 2, "last_ms": 3, "record_count": 4, "expired_queue_count": 5,
        "bumped_queue_count": 6, "finding_count": 7,
    }  # fmt: skip
