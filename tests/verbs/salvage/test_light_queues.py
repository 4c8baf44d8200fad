"""Light message queues (LMQ) in a salvaged store: sound messages keep their offsets, and losses are counted."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from store import Message, check, open_store, salvage
from store.formats.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET, PLACEHOLDER
from tests.cli.running import rmqctl
from tests.support.light_queues import COUNT, LIGHT, Offsets, light, make, read, zero
from tests.support.salvaging import SEGMENT, records_of


def without(read: Offsets, numbers: range) -> Offsets:
    keys = {f"U{number:031d}" for number in numbers}
    return {topic: [one for one in found if one[1] not in keys] for topic, found in read.items()}


def put_more(root: Path, line: str, names: str = "%LMQ%a,%LMQ%b") -> str | None:
    """Put a message, and return its offsets in light queues."""
    with open_store(root, settings=LIGHT, read_only=False, compat=line) as store:
        return store.lookup(store.put(light(99, names)).log_offset).properties.get(INNER_MULTI_QUEUE_OFFSET)


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_light_queues_of_another_prefix_keep_their_offsets(keep_offsets: bool, tmp_path: Path) -> None:
    """4.9 dispatches to any name, in the queue id of the message."""
    root, once, twice = (tmp_path / name for name in ("old", "once", "twice"))
    with open_store(root, settings=LIGHT, read_only=False, compat="4.9") as store:
        put = [
            store.put(replace(light(number, "plain,%LMQ%b"), topic=f"T{number % 2}", queue_id=number % 3))
            for number in range(COUNT)
        ]

    def keys(root: Path) -> dict[tuple[str, int], dict[int, str | None]]:
        with open_store(root) as store:
            return {
                queue: {
                    number: one.uniq_key
                    for number, one in enumerate(store.messages(*queue), store.min_offset(*queue))
                    if one.uniq_key is not None
                }
                for queue in [(topic, n) for topic in ("T0", "T1", "plain") for n in range(3)] + [("%LMQ%b", 0)]
            }

    before = keys(root)
    zero(root, [(one.log_offset, one.size) for one in put[9:15]])
    salvage(root, once, keep_offsets=keep_offsets)
    salvage(once, twice, keep_offsets=keep_offsets)
    lost = {f"U{number:031d}" for number in range(9, 15)}
    left = {queue: {at: key for at, key in found.items() if key not in lost} for queue, found in before.items()}
    assert len(left["plain", 0]) == 8
    assert keys(once) == keys(twice) == left
    assert list(check(once)) == list(check(twice)) == []


def test_a_hole_of_tiny_messages_compacts_the_log_and_leaves_the_others_at_their_offsets(tmp_path: Path) -> None:
    root, new = tmp_path / "old", tmp_path / "new"
    with open_store(root, settings=LIGHT, read_only=False, compat="5.3") as store:
        tiny = {INNER_MULTI_DISPATCH: "%LMQ%a,%LMQ%b"}
        results = [store.put(Message.of("T", b"x", properties=tiny | {"n": str(number)})) for number in range(COUNT)]

    def bodies(root: Path) -> dict[str, dict[int, str]]:
        with open_store(root) as store:
            found = {topic: list(store.messages(topic, 0)) for topic in ("T", "%LMQ%a", "%LMQ%b")}
        return {
            topic: {number: one.properties["n"] for number, one in enumerate(messages) if "n" in one.properties}
            for topic, messages in found.items()
        }

    zero(root, [(one.log_offset, one.size) for one in results[5:25]])
    report = salvage(root, new, keep_offsets=True)
    assert report.new_store is not None
    assert re.fullmatch(r"offset \d+: no room in the log for a placeholder of .*", report.new_store.compacted)
    kept = {number: str(number) for number in (*range(5), *range(25, COUNT))}
    assert bodies(new) == {"T": kept, "%LMQ%a": kept, "%LMQ%b": kept}
    assert list(check(new)) == []


@pytest.mark.parametrize("line", ["4.9", "5.3"])
@pytest.mark.parametrize("keep_offsets", [False, True])
@pytest.mark.parametrize(("first", "stop", "own"), [(9, 13, {False: 2, True: 0}), (12, 14, {False: 1, True: 0})])
def test_messages_around_a_hole_keep_their_offsets_in_all_queues(
    first: int, stop: int, own: dict[bool, int], keep_offsets: bool, line: str, tmp_path: Path
) -> None:
    root, new = tmp_path / "store", tmp_path / "new"
    records = make(root, line)
    before = read(root)
    zero(root, records[first:stop])
    report = salvage(root, new, keep_offsets=keep_offsets)
    assert report.new_store is not None
    assert report.new_store.placeholder_count == stop - first + own[keep_offsets]
    assert list(check(new)) == []
    assert read(new) == without(before, range(first, stop))
    assert put_more(new, line) == "10,30"


def test_the_losses_have_a_row_of_each_light_queue_and_count_each_message_once(tmp_path: Path) -> None:
    root = tmp_path / "store"
    zero(root, make(root)[9:13])
    (root / "config").mkdir(exist_ok=True)
    (root / "config/lmqConsumerOffset.json").write_text(json.dumps({"lmqOffsetTable": {"%LMQ%a@g": 4}}))
    found = rmqctl("--format", "json", "salvage", "--to", tmp_path / "new", store=root).json
    rows = [(row["topic"], row["message_count"], row["unconsumed_by_group"]) for row in found["lost"]]
    assert (found["lost_messages"], found["lost_unreadable"]) == (4, 4)
    assert rows == [("T", 4, {}), ("%LMQ%b", 4, {}), ("%LMQ%a", 2, {"g": 1})]
    notes = [one for one in rmqctl("-f", "json", "doctor", store=tmp_path / "new").json["diagnoses"] if one["count"]]
    assert {one["what"] for one in notes if "placeholders" in one["detail"]} == {"lost messages"}
    assert not [one for one in notes if "queue-" in one["what"]]


def test_light_queues_without_entries_left_count_what_is_missing_in_them(tmp_path: Path) -> None:
    root = tmp_path / "store"
    zero(root, make(root)[9:13])
    for queue in (root / "consumequeue").iterdir():
        for file in (queue / "0").iterdir():
            file.unlink()
    report = salvage(root)
    assert report.lost.messages == 4
    assert [(row.topic, row.message_count) for row in report.lost.queue_rows()] == [
        ("T", 4), ("%LMQ%b", 4), ("%LMQ%a", 2),
    ]  # fmt: skip


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_a_damaged_message_is_one_of_each_of_its_queues(keep_offsets: bool, tmp_path: Path) -> None:
    root = tmp_path / "store"
    at, _ = make(root)[9]
    before = read(root)
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(at + 90)
        file.write(b"\1")
    report = salvage(root, tmp_path / "new", keep_offsets=keep_offsets)
    rows = [(row.topic, row.message_count, row.damaged_count) for row in report.lost.queue_rows()]
    assert (report.lost.messages, rows) == (1, [("T", 1, 1), ("%LMQ%a", 1, 1), ("%LMQ%b", 1, 1)])
    assert read(tmp_path / "new") == without(before, range(9, 10))


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_a_salvaged_store_can_be_salvaged_again(keep_offsets: bool, tmp_path: Path) -> None:
    root, once, twice = (tmp_path / name for name in ("store", "once", "twice"))
    records = make(root)
    before = read(root)
    zero(root, records[9:13])
    salvage(root, once)
    sizes = {data: at for at, (_, data) in records_of(once).items()}
    lost = [(at, len(data)) for data, at in sizes.items() if b"U" + b"%031d" % 21 in data or b"%031d" % 20 in data]
    zero(once, lost)
    salvage(once, twice, keep_offsets=keep_offsets)
    assert list(check(twice)) == []
    assert read(twice) == without(without(before, range(9, 13)), range(20, 22))


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_first_messages_that_are_lost_or_expired_leave_the_others_at_their_offsets(
    keep_offsets: bool, tmp_path: Path
) -> None:
    for name, damage in {"lost": [0, 1, 2, 3], "expired": []}.items():
        root, new = tmp_path / name, tmp_path / f"new-{name}"
        records = make(root, count=150, size=200)
        before = read(root)
        if damage:
            zero(root, [records[number] for number in damage])
            gone = range(4)
        else:
            (root / "commitlog" / f"{0:020d}").unlink()
            gone = range(sum(at < SEGMENT for at, _ in records))
        salvage(root, new, keep_offsets=keep_offsets)
        assert list(check(new)) == []
        assert read(new) == without(before, gone)
        assert put_more(new, "5.3") == "50,150"


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_a_light_queue_whose_messages_all_expired_goes_on(keep_offsets: bool, tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root, settings=LIGHT, read_only=False, compat="5.3") as store:
        for number in range(150):
            store.put(light(number, "%LMQ%a,%LMQ%b" if number < 5 else "%LMQ%b", 200))
    (root / "commitlog" / f"{0:020d}").unlink()
    made = salvage(root, tmp_path / "new", keep_offsets=keep_offsets).new_store
    assert made is not None
    assert made.placeholder_count == 1
    assert list(check(tmp_path / "new")) == []
    assert put_more(tmp_path / "new", "5.3") == "5,150"


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_an_offset_that_a_broker_left_out_gets_no_placeholder(keep_offsets: bool, tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root, settings={**LIGHT, "enableLmq": False}, read_only=False) as store:
        for number in (0, 1, 3, 4):
            properties = {INNER_MULTI_DISPATCH: "%LMQ%a", INNER_MULTI_QUEUE_OFFSET: str(number)}
            store.put(Message.of("T", b"x", properties=properties))
    made = salvage(root, tmp_path / "new", keep_offsets=keep_offsets).new_store
    assert made is not None
    assert made.placeholder_count == 0
    with open_store(tmp_path / "new") as store:
        assert not any(PLACEHOLDER in one.properties for one in store.messages("T", 0))
