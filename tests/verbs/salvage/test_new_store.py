"""A store of salvaged records: sound, with every message at its queue offset."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from store import Message, open_store
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.host import Host
from store.formats.message import (
    BORN_HOST_IPV6,
    FLAG_AT,
    QUEUE_OFFSET_AT,
    STORE_HOST_IPV6,
    TRANSACTION_COMMIT,
    decode_record,
    is_queued,
)
from store.formats.property_crc import has_own_crc, stored_crc
from store.formats.topics import HALF_TOPIC
from store.verbs.check.check import check_files
from store.verbs.salvage import new_store
from store.verbs.salvage.grade import Grade, SalvagedRun
from store.verbs.salvage.log_writer import SMALLEST_FILLER
from store.verbs.salvage.new_store import NewStore, Salvaged, new_folder, write_new_store
from store.verbs.salvage.placeholder import Placeholder, encode_placeholder
from store.verbs.salvage.salvage import SalvageReport, next_offsets_of, salvage, salvage_runs
from store.verbs.salvage.sources import config_of
from tests.cli.running import rmqctl
from tests.conftest import CopyOf
from tests.engine.services.stores import Builder
from tests.support.golden import golden
from tests.support.quickly import one_of
from tests.support.salvaging import SEGMENT, flip_bit_in_a_body, records_of, remove_a_segment, zero_a_page
from tests.support.stores import SMALL, Clock, make_store
from tests.verbs.rebuild.stores import expired_store

STORES = ("normal", "many", "batch", "normal5", "ipv6")
NOW_MS = 1_800_000_000_000


def salvaged(source: Path, target: Path, *, keep_offsets: bool = False) -> NewStore:
    fs = Filesystem()
    config = config_of(source, {}, fs)

    def walk() -> Iterator[SalvagedRun]:
        return salvage_runs(source, fs, SalvageReport(), delay_levels_ms=config.delay_levels_ms)

    ends = next_offsets_of(source, fs, (), pytest.fail)
    contents = Salvaged(walk, ends)
    return write_new_store(contents, target, config, fs, keep_offsets=keep_offsets, clock=lambda: NOW_MS)


def queue_bodies(root: Path) -> dict[tuple[str, int, int], bytes]:
    """Body of every message by topic, queue id and queue offset; placeholders left out."""
    found = {}
    with open_store(root) as store:
        for queue in store.queues():
            for message in store.messages(queue.topic, queue.queue_id):
                if "RMQCTL_LOST" not in message.properties:
                    found[message.topic, message.queue_id, message.queue_offset] = message.body
    return found


@pytest.mark.parametrize(("name", "keep_offsets"), one_of(7, STORES, [False, True]))
def test_a_sound_store_is_written_again_with_the_same_messages(name: str, keep_offsets: bool, tmp_path: Path) -> None:
    made = salvaged(golden(name).store, tmp_path / "new", keep_offsets=keep_offsets)
    assert (made.placeholder_count, made.filler_count, made.left_out_count) == (0, 0, 0)
    assert not list(check_files(StoreReader(str(tmp_path / "new"))))
    assert queue_bodies(tmp_path / "new") == queue_bodies(golden(name).store)


@pytest.mark.parametrize(
    ("damage", "keep_offsets", "seed"),
    one_of(13, [flip_bit_in_a_body, zero_a_page, remove_a_segment], [False, True], range(3)),
)
def test_what_is_certain_keeps_its_queue_offset_and_checks_clean(
    damage: object, keep_offsets: bool, seed: int, copy_of: CopyOf, tmp_path: Path
) -> None:
    _, root = copy_of("many")
    before = queue_bodies(root)
    damage(root, random.Random(seed))  # type: ignore[operator]
    certain = {data for grade, data in records_of(root).values() if grade is Grade.CERTAIN}
    made = salvaged(root, tmp_path / "new", keep_offsets=keep_offsets)
    assert made.record_count == len(certain)
    assert not list(check_files(StoreReader(str(tmp_path / "new"))))
    after = queue_bodies(tmp_path / "new")
    queued = [one for one in map(decode_record, certain) if is_queued(one.sys_flag)]
    assert after == {(one.topic, one.queue_id, one.queue_offset): one.body for one in queued}
    assert after.items() <= before.items()


@pytest.mark.turns(3)
def test_log_offsets_are_kept_or_mapped(copy_of: CopyOf, tmp_path: Path) -> None:
    _, root = copy_of("many")
    zero_a_page(root, random.Random(1))
    kept = {offset for offset, (grade, _) in records_of(root).items() if grade is Grade.CERTAIN}
    salvaged(root, tmp_path / "kept", keep_offsets=True)
    assert kept <= records_of(tmp_path / "kept").keys()
    moved = dict(salvaged(root, tmp_path / "new").moves())
    assert moved.keys() == kept
    assert set(moved.values()) <= records_of(tmp_path / "new").keys()


def committed(builder: Builder) -> None:
    """A message in front, and two transactions: half, commit and op record of each; one commit has IPv6 hosts."""
    builder.put("T", {}, bytes(200))
    for number, hosts in enumerate((0, BORN_HOST_IPV6 | STORE_HOST_IPV6)):
        half = builder.half(f"K{number}")
        host = {"born_host": Host.parse("[::1]:1"), "store_host": Host.parse("[::2]:2")} if hosts else {}
        message = Message("Pay", b"x", properties=f"UNIQ_KEY\x01K{number}".encode(), **host)
        put = replace(message, sys_flag=TRANSACTION_COMMIT | hosts, prepared_transaction_offset=half)
        assert builder.store.put(put).is_ok
        builder.end(str(number))


@pytest.mark.turns(2)
@pytest.mark.parametrize("keep_offsets", [False, True])
@pytest.mark.parametrize("lost", ["T", HALF_TOPIC])
@pytest.mark.parametrize("line", ["4.9", "5.3"])
def test_a_moved_commit_names_the_new_place_of_its_half_message(
    line: str, lost: str, keep_offsets: bool, tmp_path: Path
) -> None:
    settings = {"enabledAppendPropCRC": True} if line == "5.3" else {}
    root = tmp_path / "store"
    with open_store(
        root, settings={**SMALL, **settings}, read_only=False, compat=line, clock=(clock := Clock())
    ) as store:
        committed(Builder(store, clock))
    with open_store(root) as store:
        gone = store.get(lost, 0, 0).messages[0]
        before = [one.prepared_transaction_offset for one in store.messages("Pay", 0)]
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(gone.log_offset)
        file.write(bytes(gone.size))
    words = ("--keep-offsets",) if keep_offsets else ()
    run = rmqctl("salvage", "--to", tmp_path / "new", *words, store=root)
    assert run.code == 1
    with open_store(tmp_path / "new") as store:
        halves = {one.uniq_key: one.log_offset for one in store.messages(HALF_TOPIC, 0)}
        named = {one.uniq_key: one.prepared_transaction_offset for one in store.messages("Pay", 0)}
    is_half_lost = lost == HALF_TOPIC
    unnamed = before[0] if keep_offsets else -1
    assert named == {"K0": unnamed if is_half_lost else halves["K0"], "K1": halves["K1"]}
    assert ("1 committed message of half messages that were not saved" in run.err) is (
        is_half_lost and not keep_offsets
    )
    assert list(check_files(StoreReader(str(tmp_path / "new")))) == []


@pytest.mark.parametrize(("properties", "is_own"), [(b"", True), (b"RETRY_TOPIC\x01T\x02", False)])
def test_a_moved_record_has_the_crc_of_its_new_bytes_unless_it_had_none_of_its_own(
    properties: bytes, is_own: bool, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    with open_store(root, read_only=False, compat="5.3", settings={**SMALL, "enabledAppendPropCRC": True}) as store:
        first, second = (store.put(Message("T", b"body", 0, properties)) for _ in range(2))
    log = root / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[: first.size] = bytes(first.size)
    if not is_own:
        data[second.log_offset + FLAG_AT] ^= 1
    log.write_bytes(data)
    old = stored_crc(data[second.log_offset : second.log_offset + second.size])
    salvaged(root, tmp_path / "new")
    [record] = (data for _, data in records_of(tmp_path / "new").values() if b"body" in data)
    assert (has_own_crc(record), stored_crc(record) == old) == (is_own, not is_own)


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_each_walk_and_the_building_of_the_queues_are_equal_parts_of_the_progress(
    keep_offsets: bool, tmp_path: Path
) -> None:
    told: list[float] = []

    def note(done: int, in_all: int) -> None:
        told.append(done / in_all)

    salvage(golden("normal").store, tmp_path / "new", keep_offsets=keep_offsets, progress=note)
    walks = 1 + keep_offsets
    ends = {walk / (walks + 1) for walk in range(walks + 1)}
    assert told == sorted(told)
    assert (told[0], ends - set(told)) == (0, set())
    assert walks / (walks + 1) < told[-1] <= 1


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadRequest, match="not empty"):
        salvaged(golden("normal").store, tmp_path)
    assert (tmp_path / "file").exists()


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_the_next_message_of_a_queue_without_messages_follows_the_last_one(keep_offsets: bool, tmp_path: Path) -> None:
    source = expired_store(tmp_path / "store")
    assert salvaged(source, tmp_path / "new", keep_offsets=keep_offsets).placeholder_count == 1
    with open_store(tmp_path / "new", read_only=False) as store:
        assert store.put(Message("Old", b"next")).queue_offset == 30


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_a_queue_whose_beginning_has_expired_is_read_from_its_first_message_on(
    keep_offsets: bool, tmp_path: Path
) -> None:
    source = expired_store(tmp_path / "store")
    salvaged(source, tmp_path / "new", keep_offsets=keep_offsets)
    for queue_id in range(3):
        first = min(number for topic, queue, number in queue_bodies(source) if (topic, queue) == ("T", queue_id))
        with open_store(tmp_path / "new") as store:
            found = store.get("T", queue_id, store.min_offset("T", queue_id))
        assert (found.min_offset, found.messages[0].queue_offset, found.status.name) == (first, first, "FOUND")


def without_records_of(queue_id: int, count: int, root: Path) -> Path:
    """A store whose first `count` records of queue T/`queue_id` are zeros."""
    source = make_store(root, 60)
    records = {at: data for at, (_, data) in sorted(records_of(source).items())}
    with (source / "commitlog" / f"{0:020d}").open("r+b") as segment:
        for at in [at for at, data in records.items() if decode_record(data).queue_id == queue_id][:count]:
            segment.seek(at)
            segment.write(bytes(len(records[at])))
    return source


@pytest.mark.leaves_damage
def test_a_queue_that_lost_all_its_messages_goes_on_where_a_reader_from_0_finds_it(tmp_path: Path) -> None:
    source = without_records_of(1, 60, tmp_path / "store")
    assert salvaged(source, tmp_path / "new", keep_offsets=True).placeholder_count == 1
    with open_store(tmp_path / "new", read_only=False) as store:
        put = store.put(Message("T", b"next", queue_id=1))
        store.catch_up()
        start, bodies = 0, []
        for _ in range(9):
            found = store.get("T", 1, start)
            bodies += [one.body for one in found.messages]
            start = found.next_offset
    assert (bodies, put.queue_offset) == ([b"\0", b"next"], 20)


@pytest.mark.leaves_damage
@pytest.mark.parametrize("lost", [1, 2])
def test_no_queue_of_a_log_that_begins_at_0_begins_with_pre_blank_units(lost: int, tmp_path: Path) -> None:
    source = without_records_of(1, lost, tmp_path / "store")
    made = salvaged(source, tmp_path / "new", keep_offsets=True)
    assert (made.record_count, made.placeholder_count) == (60 - lost, lost)
    with open_store(tmp_path / "new") as store:
        assert {queue.min_offset for queue in store.queues()} == {0}
        assert [one.properties.get("RMQCTL_LOST") for one in store.messages("T", 1)][: lost + 1] == ["true"] * lost + [
            None
        ]


@pytest.mark.parametrize(("keep_offsets", "begins"), [(False, SEGMENT), (True, 0)])
def test_a_compacted_log_begins_at_its_second_segment_above_the_log_offset_of_pre_blank_units(
    keep_offsets: bool, begins: int, tmp_path: Path
) -> None:
    salvaged(make_store(tmp_path / "store", 30), tmp_path / "new", keep_offsets=keep_offsets)
    assert min(int(path.name) for path in (tmp_path / "new/commitlog").iterdir()) == begins


@pytest.mark.turns(3)
@pytest.mark.leaves_damage
@pytest.mark.parametrize("keep_offsets", [False, True])
@pytest.mark.parametrize("byte", range(8))
def test_a_damaged_queue_offset_asks_for_no_more_placeholders_than_the_log_can_have_held(
    byte: int, keep_offsets: bool, tmp_path: Path
) -> None:
    root = make_store(tmp_path / "store", 60)
    log_offset = sorted(records_of(root))[30]
    with (root / "commitlog" / f"{log_offset // SEGMENT * SEGMENT:020d}").open("r+b") as segment:
        segment.seek(log_offset % SEGMENT + QUEUE_OFFSET_AT + byte)
        segment.write(b"\x7f")
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    made = salvaged(root, tmp_path / "new", keep_offsets=keep_offsets)
    assert (made.record_count, made.placeholder_count) == (60, 0)


@pytest.mark.parametrize(("name", "is_of_5"), [("normal", False), ("normal5", True), ("many", False)])
def test_a_store_of_v2_records_is_one_of_5_x(name: str, is_of_5: bool, tmp_path: Path) -> None:
    salvaged(golden(name).store, tmp_path / "new")
    assert (tmp_path / "new/abort.bak").exists() == is_of_5


def test_a_log_that_begins_later_keeps_its_first_segment(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 250)
    first, *later = sorted((root / "commitlog").iterdir())
    first.unlink()
    made = salvaged(root, tmp_path / "new", keep_offsets=True)
    assert sorted(one.name for one in (tmp_path / "new/commitlog").iterdir()) == [one.name for one in later]
    last = max(records_of(root))
    assert (made.filler_count, made.placeholder_count) == (0, 0)
    assert made.log_end == last + len(records_of(root)[last][1])


class NotedLog:
    """A log that notes what is appended and skipped."""

    segment_size, position = SEGMENT, 0

    def __init__(self) -> None:
        self.noted: list[tuple[object, ...]] = []

    def append(self, data: memoryview, sizes: Any, *, moves: object) -> None:
        one = decode_record(bytes(data))
        self.noted.append((one.log_offset, one.queue_offset, len(one.body) - 1, one.store_timestamp_ms))
        self.position += len(data)

    def skip_to(self, log_offset: int, time_ms: int) -> None:
        self.noted.append((log_offset, time_ms))


def bridged(first: int, planned: list[Placeholder]) -> tuple[int, list[tuple[object, ...]]]:
    """Where a log begins, and what is written to it before its first record."""
    log = NotedLog()
    start = first - first % SEGMENT
    writer = new_store._StoreWriter(cast(Any, log), {start: planned}, False, b"")
    columns = SimpleNamespace(store_timestamp_ms=np.array([5, 6]))
    part = SimpleNamespace(log_offsets=np.array([first, first + 100]), run=SimpleNamespace(columns=columns))
    writer._bridge(cast(Any, part), {start: planned}, NewStore())
    return writer._end, log.noted


@pytest.mark.parametrize(
    ("first", "starts"), [(0, 0), (SEGMENT, SEGMENT), (SEGMENT + 500, SEGMENT), (3 * SEGMENT - 1, 2 * SEGMENT)]
)
def test_a_log_whose_offsets_are_kept_begins_with_the_segment_of_its_first_record(first: int, starts: int) -> None:
    assert bridged(first, []) == (starts, [(first, 5)])


@pytest.mark.parametrize(
    ("left", "padding"), [(0, 0), (1, 1), (SMALLEST_FILLER - 1, SMALLEST_FILLER - 1), (SMALLEST_FILLER, 0)]
)
def test_the_last_placeholder_takes_a_rest_that_is_too_small_for_a_filler(left: int, padding: int) -> None:
    first, last = (Placeholder(b"T", 0, number) for number in (7, 8))
    size = len(encode_placeholder(first, 0, 0))
    end = 2 * size + left
    assert bridged(end, [first, last]) == (0, [(0, 7, 0, 5), (size, 8, padding, 5), (end, 5)])


@pytest.mark.parametrize("is_there", [False, True])
def test_a_failure_leaves_the_folder_of_a_new_store_as_it_was(is_there: bool, tmp_path: Path) -> None:
    root = tmp_path / "new"
    if is_there:
        root.mkdir()
    before = [(one, one.stat().st_ino) for one in tmp_path.iterdir()]
    with suppress(InterruptedError), new_folder(root, "salvage", Filesystem()):
        (root / "commitlog").mkdir()
        (root / "commitlog" / "0").touch()
        raise InterruptedError
    assert [(one, one.stat().st_ino) for one in tmp_path.rglob("*")] == before
