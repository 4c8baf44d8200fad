"""A put in one compiled call writes and answers what a put by its steps does."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store import Message, PutResult, kernels, open_store
from store.commitlog import commit_log
from store.formats.host import LOCALHOST, Host
from store.kernels import put as source
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
    born_timestamp_ms=st.integers(-(1 << 63), (1 << 63) - 1),
    born_host=st.sampled_from(HOSTS),
    store_host=st.sampled_from(HOSTS),
    reconsume_times=st.integers(0, 3),
    prepared_transaction_offset=st.integers(0, 1 << 64),
)
steps = st.lists(st.tuples(messages, st.integers(-3, 3), st.integers(1, 9)), max_size=12)

Steps = list[tuple[Message, int, int]]


def leave_to_steps(*arguments: Any) -> None:
    """put_message for a log all of whose puts are unusual."""


def put_all(steps: Steps, put_message: Callable[..., Any]) -> tuple[list[PutResult], bytes]:
    """The results, and the log's bytes, of puts with the clock moved before each."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, patch.object(commit_log, "put_message", put_message):
        with open_store(Path(folder), settings=SETTINGS, read_only=False, clock=clock) as store:
            results = []
            for message, moved_ms, times in steps:
                clock.now_ms += moved_ms
                results += [store.put(message) for _ in range(times)]
        return results, b"".join(path.read_bytes() for path in sorted((Path(folder) / "commitlog").iterdir()))


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
