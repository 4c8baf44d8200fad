"""What the answers of a store say of queues and hits without messages."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store import Message, open_store
from store.errors import BadRequest
from store.reading.message_store import _damage_of_hits, _index_in_database, _is_asked
from tests.support.stores import SMALL, make_store

LOG = cast(Any, SimpleNamespace(min_offset=10, max_offset=20))


def test_an_unknown_queue_ends_at_0_and_has_no_first_message(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 1)
    with open_store(tmp_path / "store") as store:
        unknown = store.min_offset("none", 7), store.max_offset("none", 7), store.earliest_time("none", 7)
        assert store.offset_by_time("none", 7, 1) == 0
    assert unknown == (0, 0, -1)


@pytest.mark.parametrize("name", ["lookup", "record_start", "is_in_blank"])
def test_a_log_offset_is_a_long(name: str, tmp_path: Path) -> None:
    make_store(tmp_path / "store", 1)
    with open_store(tmp_path / "store") as store:
        assert not getattr(store, name)((1 << 63) - 1)
        with pytest.raises(BadRequest, match="log_offset does not fit in 64 bits: 9223372036854775808"):
            getattr(store, name)(1 << 63)


def test_the_end_of_the_longs_is_a_time(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 2, queues=1)
    with open_store(tmp_path / "store") as store:
        assert store.offset_by_time("T", 0, (1 << 63) - 1) == 1
        with pytest.raises(BadRequest, match="time_ms does not fit in 64 bits: 9223372036854775808"):
            store.offset_by_time("T", 0, 1 << 63)


def test_queues_are_listed_by_topic_and_id_and_a_log_offset_is_located_in_its_segment(tmp_path: Path) -> None:
    put = [("b", 1), ("a", 2), ("b", 0), ("a", 10)]
    with open_store(tmp_path / "store", read_only=False, settings=SMALL) as store:
        ends = [store.put(Message(topic, b"x" * 9000, queue_id)).log_offset for topic, queue_id in put]
        store.catch_up()
        assert [(one.topic, one.queue_id) for one in store.queues()] == sorted(put)
        segments = sorted((tmp_path / "store" / "commitlog").iterdir())[:4]
        assert [store.locate(at) for at in ends] == [(segment, 0) for segment in segments]
        assert store.locate(ends[1] + 5) == (segments[1], 5)
        with pytest.raises(BadRequest, match="log offset 65536 lies in no segment"):
            store.locate(1 << 16)


def test_a_refresh_shows_what_another_store_has_put_since(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", read_only=False) as writing, open_store(tmp_path / "store") as reading:
        writing.put(Message("T", b"x"))
        writing.flush()
        assert reading.max_offset("T", 0) == 0
        reading.refresh()
        assert reading.max_offset("T", 0) == 1


@pytest.mark.parametrize(
    ("hits", "count", "told"),
    [
        ([], 0, ""),
        ([9, 20], 0, ""),
        ([9, 10, 20], 1, "10 for the key"),
        ([19], 1, "19 for the key"),
        ([19, 10], 2, "19 for the key, as at 1 more place"),
        ([12, 11, 13], 3, "12 for the key, as at 2 more places"),
    ],
)
def test_hits_within_the_log_are_damage(hits: list[int], count: int, told: str) -> None:
    found = _damage_of_hits(LOG, hits)
    reason = f"the index names log offset {told}, where no record can be read"
    assert [(one.reason, one.record_count) for one in found] == ([(reason, count)] if count else [])


@pytest.mark.parametrize(
    ("topic", "key", "by_tags", "is_asked"),
    [
        ("T", "U", False, True),
        ("T", "a", False, True),
        ("T", "b", False, True),
        ("T", "x", False, False),
        ("T", "x", True, True),
        ("T", "a", True, False),
        ("S", "a", False, False),
        ("S", "x", True, False),
    ],
)
def test_a_hit_is_asked_for_by_its_key_or_tag(topic: str, key: str, by_tags: bool, is_asked: bool) -> None:
    message = cast(Any, SimpleNamespace(topic="T", uniq_key="U", keys=["a", "b"], tags="x"))
    assert _is_asked(message, topic, key, by_tags=by_tags) is is_asked


def test_an_index_in_a_database_is_asked_through_its_room() -> None:
    def query(*asked: object) -> object:
        return asked

    def opened(*rooms: object) -> Any:
        return SimpleNamespace(rooms_with=lambda *names: iter(rooms), layout=SimpleNamespace(root=Path("s")), fs="fs")

    with pytest.raises(BadRequest, match="the store has no database with an index") as refused:
        _index_in_database(opened(), by_tags=True)
    assert (refused.value.file, refused.value.code) == (Path("s"), "no-index-database")
    room = SimpleNamespace(query=query)
    asked = _index_in_database(opened(room), by_tags=True)("T", "k", 5, 1, 2)
    assert cast(Any, asked)[1:] == ("fs", "T", "k", 5, (1, 2), True)


@pytest.mark.leaves_damage
def test_a_query_tells_of_the_hits_that_are_no_records(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 300)

    def answer(key: str) -> tuple[list[int], list[tuple[str | None, int]]]:
        with open_store(root) as store:
            found = store.query("T", key)
        return [one.log_offset for one in found.messages], [(one.code, one.record_count) for one in found.damaged]

    [at], none = answer("k5")
    assert none == []
    with min((root / "commitlog").iterdir()).open("r+b") as file:
        file.seek(at + 4)
        file.write(b"none")
    assert answer("k5") == ([], [("entry-outside", 1)])
    assert answer("k4")[1] == answer("k6")[1] == []


@pytest.mark.parametrize(
    ("max_count", "most", "is_limited"),
    [(4, 64, True), (5, 64, True), (6, 64, False), (64, 5, True), (64, 6, False)],
)
def test_a_query_tells_that_it_ended_at_a_number_of_hits(
    max_count: int, most: int, is_limited: bool, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    with open_store(root, settings=SMALL, read_only=False) as store:
        store.put_all([Message.of("T", "body", keys=["k"])] * 5)
    with open_store(root, settings={"maxMsgsNumBatch": most}) as store:
        found = store.query("T", "k", max_count)
        assert (len(found.messages), found.is_limited) == (min(5, max_count, most), is_limited)
