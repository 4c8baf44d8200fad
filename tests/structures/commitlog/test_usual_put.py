"""A put in one compiled call writes and answers what a put by its steps does."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store import BadRequest, Message, PutResult, PutStatus, WritableStore, kernels, open_store
from store.engine.live.running_flags import RunningFlag
from store.formats.host import LOCALHOST, Host
from store.formats.message import record_size
from store.kernels import put as source
from store.structures.commitlog import commit_log
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.stores import SMALL, Clock

HOSTS = (LOCALHOST, Host.parse("10.0.0.1:0"), Host.parse("[::1]:10911"))
LONG_PROPERTIES = b"p" * 12_000, b"p" * 32_767, b"p" * 32_768
SETTINGS = {**SMALL, "maxMessageSize": 2000}

messages = st.builds(
    Message,
    topic=st.sampled_from(["T", "Topic of mine", "", "t" * 127, "t" * 128]),
    body=st.binary(max_size=2100),
    queue_id=st.sampled_from([0, 1, 7, -1, 1 << 31, 1 << 63]),
    properties=st.sampled_from([b"", b"KEYS\x01k", b"K\x01k\x02DELAY\x013\x02", b"DELAY\x01x", *LONG_PROPERTIES]),
    flag=st.sampled_from([0, -1, 1 << 31]),
    sys_flag=st.sampled_from([0, 4, 8, 12, 0x30, 1 << 40]),
    born_timestamp_ms=st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    born_host=st.sampled_from(HOSTS),
    store_host=st.sampled_from(HOSTS),
    reconsume_times=st.integers(0, 3),
    prepared_transaction_offset=st.integers(0, 1 << 64),
)
steps = st.lists(st.tuples(messages, st.integers(-3, 3), st.integers(1, 9)), max_size=12)

Steps = list[tuple[Message, int, int]]


def leave_to_steps(*arguments: Any) -> None:
    """put_message for a log all of whose puts are unusual."""


def outcome(store: WritableStore, message: Message) -> PutResult | str:
    try:
        return store.put(message)
    except BadRequest as refusal:
        return str(refusal)


def put_all(steps: Steps, put_message: Callable[..., Any]) -> tuple[list[PutResult | str], bytes]:
    """The results, and the log's bytes, of puts with the clock moved before each."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, patch.object(commit_log, "put_message", put_message):
        with open_store(Path(folder), settings=SETTINGS, read_only=False, clock=clock) as store:
            results: list[PutResult | str] = []
            for message, moved_ms, times in steps:
                clock.now_ms += moved_ms
                results += [outcome(store, message) for _ in range(times)]
        return results, b"".join(path.read_bytes() for path in sorted((Path(folder) / "commitlog").iterdir()))


@pytest.mark.turns(3)
@pytest.mark.leaves_damage  # store times that go back
@settings(max_examples=15)
@given(steps)
def test_a_put_in_one_call_is_that_by_steps(steps: Steps) -> None:
    by_steps = put_all(steps, leave_to_steps)
    assert put_all(steps, kernels.put_message) == by_steps
    assert put_all(steps, source.put_message) == by_steps


@pytest.mark.parametrize(
    ("second", "is_one_call"),
    [
        (Message("T", b"as before"), True),
        (Message("T", b"", properties=b"KEYS\x01k"), True),
        (Message("T", b"", queue_id=1), False),
        (Message("T", b"", properties=b"DELAY\x011"), False),
        (Message("T", b"", born_host=HOSTS[1]), False),
    ],
)
def test_only_the_usual_put_is_one_call(tmp_path: Path, second: Message, is_one_call: bool) -> None:
    with open_store(tmp_path / "store", settings=SETTINGS, read_only=False) as store:
        assert store.put(Message("T", b"")).is_ok
        with patch.object(commit_log.CommitLog, "_put_by_steps", return_value=None) as by_steps:
            store.put(second)
    assert by_steps.called is not is_one_call


@pytest.mark.parametrize("born_ms", [None, 5])
@pytest.mark.parametrize("queue_id", [True, 0.0])
@pytest.mark.parametrize("kernel", [kernels.put_message, source.put_message])
def test_a_queue_id_of_another_kind_is_refused_behind_a_usual_put(
    kernel: Callable[..., Any], queue_id: Any, born_ms: int | None, tmp_path: Path
) -> None:
    with (
        patch.object(commit_log, "put_message", kernel),
        open_store(tmp_path / "store", settings=SETTINGS, read_only=False) as store,
    ):
        assert store.put(Message("T", b"")).is_ok
        with pytest.raises(TypeError, match="queue_id is not a whole number"):
            store.put(Message("T", b"", queue_id, born_timestamp_ms=born_ms))


@pytest.mark.parametrize(("size", "is_one_call"), [(32_767, True), (32_768, False)])
def test_properties_of_a_usual_put_have_a_size_of_two_bytes(tmp_path: Path, size: int, is_one_call: bool) -> None:
    with open_store(tmp_path / "store", read_only=False) as store:
        assert store.put(Message("T", b"")).is_ok
        with patch.object(commit_log.CommitLog, "_put_by_steps", return_value=None) as by_steps:
            store.put(Message("T", b"", properties=b"p" * size))
    assert by_steps.called is not is_one_call


class Moment(NamedTuple):
    """A store between two puts of an edge, and what they depend on."""

    store: WritableStore
    clock: Clock
    fs: FaultyFilesystem


Step = Message | Callable[[Moment], object]


def text(size: int, properties: bytes = b"") -> Message:
    return Message("T", bytes(size), properties=properties)


def record_of(size: int) -> Message:
    """A message of the largest body whose record has this size."""
    return text(2000, b"p" * (size - record_size(2000, 1, 0)))


def move_clock(by_ms: int) -> Step:
    return lambda moment: setattr(moment.clock, "now_ms", moment.clock.now_ms + by_ms)


def refuse(operation: str) -> Step:
    """Lets every such operation on the log fail from here on."""
    return lambda moment: setattr(moment.fs, "when", lambda name, at: name == operation and "commitlog" in str(at.path))


def hold_log(since_ms: int) -> Step:
    return lambda moment: setattr(moment.store.opened.log, "locked_since_ms", moment.clock.now_ms - since_ms)


OK, ILLEGAL = PutStatus.PUT_OK, PutStatus.MESSAGE_ILLEGAL
NO_WAIT = b"WAIT\x01false\x02"
EDGES: dict[str, tuple[dict[str, object], list[Step], list[PutStatus]]] = {
    "a topic of 127 bytes": ({}, [Message("t" * 127, b"")] * 3, [OK] * 3),
    "a topic of 128 bytes": ({}, [Message("t" * 128, b"")] * 2, [ILLEGAL] * 2),
    "the largest body": ({}, [text(2000)] * 2, [OK] * 2),
    "a body of one byte more": ({}, [text(2001), text(1)], [ILLEGAL, OK]),
    "a record that fills a segment": ({}, [record_of(16384 - 8)] * 3, [OK] * 3),
    "a record of one byte more": ({}, [record_of(16384 - 7), text(1)], [ILLEGAL, OK]),
    "the longest properties": ({"mappedFileSizeCommitLog": 1 << 17}, [text(1, b"p" * 32767)] * 2, [OK] * 2),
    "longer ones": ({"mappedFileSizeCommitLog": 1 << 17}, [text(1, b"p" * 32768)] * 2, [ILLEGAL] * 2),
    "tags absent and empty": ({}, [text(1), text(1, b"TAGS\x01\x02"), text(1, b"TAGS\x01")], [OK] * 3),
    "a clock that goes back": ({}, [text(1), move_clock(-5), text(2), move_clock(9), text(3)], [OK] * 3),
    "the end of a segment": ({}, [text(size) for size in (1900, 1700, 3, 0) * 9], [OK] * 36),
    "a closed store": ({}, [lambda moment: moment.store.close(), text(1)], [PutStatus.SERVICE_NOT_AVAILABLE]),
    "a store that is not writeable": (
        {},
        [
            lambda moment: moment.store.flags.set(RunningFlag.NOT_WRITEABLE),
            text(1),
            lambda moment: moment.store.flags.clear(RunningFlag.NOT_WRITEABLE),
            text(2),
        ],
        [PutStatus.SERVICE_NOT_AVAILABLE, OK],
    ),
    "a log that another put holds": (
        {},
        [hold_log(1001), text(1), hold_log(1000), text(2)],
        [PutStatus.OS_PAGECACHE_BUSY, OK],
    ),
    "a full disk": (
        {},
        [refuse("preallocate"), *[text(1900)] * 3, lambda moment: setattr(moment.fs, "when", None), text(1)],
        [OK, OK, PutStatus.CREATE_MAPEDFILE_FAILED, OK],
    ),
    "sync flush": ({"flushDiskType": "SYNC_FLUSH"}, [text(1), text(1, NO_WAIT)], [OK, OK]),
    "a sync master without a slave": (
        {"brokerRole": "SYNC_MASTER"},
        [text(1), text(1, NO_WAIT)],
        [PutStatus.SLAVE_NOT_AVAILABLE, OK],
    ),
}


def put_at_edge(
    given: dict[str, object], steps: list[Step], put_message: Callable[..., Any]
) -> tuple[list[PutResult], bytes]:
    """The results, and the log's bytes, of puts into a store that knows their queue."""
    clock, fs = Clock(), FaultyFilesystem()
    values = {**SETTINGS, "osPageCacheBusyTimeOutMills": 1000, **given}
    listen = {"listen": "127.0.0.1:0"} if "brokerRole" in given else {}
    with tempfile.TemporaryDirectory() as folder, patch.object(commit_log, "put_message", put_message):
        with open_store(Path(folder), settings=values, read_only=False, clock=clock, fs=fs, **listen) as store:
            store.put(text(0))
            moment = Moment(store, clock, fs)
            found = [store.put(step) if isinstance(step, Message) else step(moment) for step in steps]
        answers = [one for one in found if isinstance(one, PutResult)]
        results = [one._replace(reason=one.reason.replace(folder, "")) for one in answers]
        return results, b"".join(path.read_bytes() for path in sorted((Path(folder) / "commitlog").iterdir()))


@pytest.mark.parametrize("put_message", [kernels.put_message, source.put_message])
@pytest.mark.parametrize(
    ("room", "second", "is_one_call"),
    [
        (9000, text(1999), True),
        (9000, text(2000), True),
        (9000, text(2001), False),
        (record_size(100, 1, 0) + 9, text(100), True),
        (record_size(100, 1, 0) + 8, text(100), True),
        (record_size(100, 1, 0) + 7, text(100), False),
        (9000, Message("T", b"", sys_flag=1 << 31), False),
        (9000, Message("T", b"", flag=1 << 31), False),
        (9000, Message("T", b"", flag=(1 << 31) - 1), True),
        (9000, Message("T", b"", born_timestamp_ms=5), True),
    ],
)
def test_a_put_in_one_call_fits_the_segment_and_the_limits(
    room: int, second: Message, is_one_call: bool, put_message: Callable[..., Any], tmp_path: Path
) -> None:
    segment = SMALL["mappedFileSizeCommitLog"]
    with open_store(tmp_path / "store", settings=SETTINGS, read_only=False) as store:
        first = store.put(text(0)).size
        assert store.put(record_of(segment - room - first)).log_offset == first
        with (
            patch.object(commit_log, "put_message", put_message),
            patch.object(commit_log.CommitLog, "_put_by_steps", return_value=None) as by_steps,
        ):
            store.put(second)
    assert by_steps.called is not is_one_call


@pytest.mark.turns(3)
@pytest.mark.leaves_damage  # store times that go back
@pytest.mark.parametrize("edge", EDGES)
def test_at_the_edges_a_put_in_one_call_is_that_by_steps(edge: str) -> None:
    given, steps, statuses = EDGES[edge]
    by_steps = put_at_edge(given, steps, leave_to_steps)
    assert [result.status for result in by_steps[0]] == statuses
    assert put_at_edge(given, steps, kernels.put_message) == by_steps
    assert put_at_edge(given, steps, source.put_message) == by_steps


@pytest.mark.parametrize("put_message", [kernels.put_message, source.put_message])
def test_a_put_in_one_call_takes_its_time_from_the_system_unless_a_clock_is_given(
    tmp_path: Path, put_message: Callable[..., Any]
) -> None:
    hour_ms = 3_600_000
    with patch.object(commit_log, "put_message", put_message), open_store(tmp_path / "s", read_only=False) as store:
        times_ms = [store.put(text(1)).store_timestamp_ms for _ in range(3)]
    assert all(abs(time_ms - time.time_ns() // 1_000_000) < hour_ms for time_ms in times_ms)
    assert times_ms == sorted(times_ms)
