"""Where a recovery starts, one table a rule: both lines, after a shutdown and after a crash."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from store.broker_line import LINE_4_9, LINE_5_3, BrokerLine
from store.config import StoreConfig
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.formats.checkpoint_page import CheckpointPage
from store.formats.host import Host
from store.formats.message import (
    BORN_HOST_IPV6,
    MESSAGE_MAGIC_V1,
    MESSAGE_MAGIC_V2,
    RECORD_MIN_SIZE,
    STORE_HOST_IPV6,
    Message,
    encode_record,
)
from store.formats.segment_head import SEGMENT_HEAD_SIZE
from store.opened.checkpoint import StoreCheckpoint
from store.structures.commitlog.start import (
    first_store_timestamp,
    is_abnormal,
    reads_whole_log,
    starting_segment,
    trusted_time_ms,
)

SIZE = 1000
HOUR_MS = 3_600_000
SAFE = StoreConfig(message_index_enable=True, message_index_safe=True)


@dataclass
class Head:
    """A segment of which only the first record's head counts; the disk gives the bytes before `readable`."""

    file_start: int
    buffer: bytes
    size: int = SIZE
    readable: int = SIZE

    def readable_end(self, start: int, stop: int) -> int:
        assert start == 0
        return min(stop, self.readable)


def head(time_ms: int, magic: int = MESSAGE_MAGIC_V1) -> bytes:
    """A first record's bytes; a time of 0 stands for a segment that was not written."""
    at_magic = (100).to_bytes(4, "big") + magic.to_bytes(4, "big", signed=magic < 0)
    return (at_magic.ljust(56, b"\0") + time_ms.to_bytes(8, "big")).ljust(SIZE, b"\0") if time_ms else bytes(SIZE)


def opened(
    heads: list[bytes],
    line: BrokerLine = LINE_4_9,
    *,
    page: CheckpointPage = CheckpointPage(),  # noqa: B008
    queue_end: int = 0,
    config: StoreConfig = StoreConfig(),  # noqa: B008
    aborted: bool = False,
) -> Any:
    """What the rules see of a store."""
    segments = [Head(number * SIZE, data) for number, data in enumerate(heads)]
    return SimpleNamespace(
        log=SimpleNamespace(segments=SimpleNamespace(files=segments)),
        queues=SimpleNamespace(max_physic_offset=queue_end),
        checkpoint=StoreCheckpoint(Path("checkpoint"), Filesystem(), page, None),
        abort=SimpleNamespace(exists=lambda: aborted),
        line=line,
        config=config,
    )


@pytest.mark.parametrize(
    ("count", "start"), [(0, 0), (1, 0), (2, 0), (3, 0), (4, 1 * SIZE), (5, 2 * SIZE), (9, 6 * SIZE)]
)
def test_after_a_shutdown_4_9_starts_at_the_third_last_segment(count: int, start: int) -> None:
    assert starting_segment(opened([head(1)] * count, queue_end=1), abnormal=False).log_offset == start


@pytest.mark.parametrize(
    ("queue_end", "start"),
    [(-1, 0), (0, 0), (999, 0), (1000, 1000), (1001, 1000), (3999, 3000), (4000, 4000), (9999, 4000)],
)
def test_after_a_shutdown_5_3_starts_at_the_segment_that_the_queues_reach_into(queue_end: int, start: int) -> None:
    store = opened([head(1)] * 5, LINE_5_3, queue_end=queue_end)
    assert starting_segment(store, abnormal=False).log_offset == start


HOURS = [head(hour * HOUR_MS) for hour in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("covered_ms", "start"),
    [
        (0, 0),
        (1 * HOUR_MS - 1, 0),
        (2 * HOUR_MS - 1, 0),
        (2 * HOUR_MS, 1000),
        (4 * HOUR_MS - 1, 2000),
        (4 * HOUR_MS, 3000),
    ],
)
def test_after_a_crash_the_newest_segment_that_the_checkpoint_covers_is_the_start(covered_ms: int, start: int) -> None:
    page = CheckpointPage(physic_ms=covered_ms + 3000, logics_ms=covered_ms + 3000)
    for line in (LINE_4_9, LINE_5_3):
        assert starting_segment(opened(HOURS, line, page=page), abnormal=True).log_offset == start


def test_a_segment_that_begins_with_no_record_is_no_start() -> None:
    page = CheckpointPage(physic_ms=9 * HOUR_MS, logics_ms=9 * HOUR_MS)
    assert starting_segment(opened([*HOURS, head(0)], page=page), abnormal=True).log_offset == 3000
    assert starting_segment(opened([head(0)], page=page), abnormal=True).log_offset == 0


@pytest.mark.parametrize(("line", "start"), [(LINE_4_9, 0), (LINE_5_3, 1000)])
def test_a_record_with_a_two_byte_topic_size_is_one_of_5_3_alone(line: BrokerLine, start: int) -> None:
    page = CheckpointPage(physic_ms=9 * HOUR_MS, logics_ms=9 * HOUR_MS)
    heads = [head(HOUR_MS), head(2 * HOUR_MS, MESSAGE_MAGIC_V2)]
    assert starting_segment(opened(heads, line, page=page), abnormal=True).log_offset == start


@pytest.mark.parametrize(
    ("config", "covered_ms"),
    [
        (StoreConfig(), 50_000),
        (SAFE, 23_000),
        (StoreConfig(message_index_enable=True, message_index_safe=False), 50_000),
        (StoreConfig(message_index_enable=False, message_index_safe=True), 50_000),
    ],
)
def test_the_index_counts_only_where_it_is_on_and_safe(config: StoreConfig, covered_ms: int) -> None:
    page = CheckpointPage(physic_ms=60_000, logics_ms=53_000, index_ms=23_000)
    assert trusted_time_ms(opened([], page=page, config=config)) == covered_ms


@pytest.mark.parametrize(
    ("mode", "aborted", "abnormal"),
    [("auto", False, False), ("auto", True, True), ("normal", True, False), ("abnormal", False, True)],
)
def test_the_abort_marker_or_the_caller_says_how_to_recover(mode: str, aborted: bool, abnormal: bool) -> None:
    assert is_abnormal(opened([], aborted=aborted), mode) == abnormal


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(BadRequest, match="auto or normal or abnormal, not quick"):
        is_abnormal(opened([]), "quick")


@pytest.mark.parametrize(
    ("heads", "mode", "covered_ms", "whole"),
    [
        ([], "abnormal", 0, False),
        (HOURS, "normal", 0, False),
        (HOURS, "abnormal", 0, True),
        (HOURS, "abnormal", 3 * HOUR_MS, False),
    ],
)
def test_a_recovery_reads_the_whole_log_when_it_starts_at_the_first_segment(
    heads: list[bytes], mode: str, covered_ms: int, whole: bool
) -> None:
    page = CheckpointPage(physic_ms=covered_ms + 3000, logics_ms=covered_ms + 3000)
    assert reads_whole_log(opened(heads, page=page), mode) == whole


def first_record(*, born: str = "127.0.0.1", stored: str = "127.0.0.1", body: bytes = b"") -> bytes:
    message = Message("", body, born_host=Host.parse(f"{born}:1"), store_host=Host.parse(f"{stored}:2"))
    flags = BORN_HOST_IPV6 * (":" in born) + STORE_HOST_IPV6 * (":" in stored)
    return encode_record(message, topic=b"", sys_flag=flags, queue_offset=0, log_offset=0, store_timestamp_ms=HOUR_MS)


def time_of(data: bytes, **limits: int) -> int:
    return first_store_timestamp(Head(0, data, **limits), LINE_4_9)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "record",
    [
        first_record(),
        first_record(body=b"more"),
        first_record(born="[::1]"),
        first_record(born="[::1]", stored="[::1]"),
    ],
)
def test_the_store_time_of_a_first_record_is_read_whatever_its_hosts_are(record: bytes) -> None:
    assert time_of(record.ljust(SIZE, b"\0")) == HOUR_MS
    assert time_of(record, size=len(record)) == HOUR_MS


@pytest.mark.parametrize(
    ("limits", "time_ms"),
    [
        ({"size": RECORD_MIN_SIZE}, HOUR_MS),
        ({"size": RECORD_MIN_SIZE - 1}, 0),
        ({"readable": RECORD_MIN_SIZE}, HOUR_MS),
        ({"readable": RECORD_MIN_SIZE - 1}, 0),
        ({"readable": 0}, 0),
    ],
)
def test_a_segment_of_which_less_than_a_record_can_be_read_has_no_first_time(
    limits: dict[str, int], time_ms: int
) -> None:
    assert time_of(first_record().ljust(SIZE, b"\0"), **limits) == time_ms


def test_no_more_than_a_head_is_asked_of_the_disk() -> None:
    """A page that cannot be read behind the head hides no time."""
    asked: list[int] = []

    class Asked(Head):
        def readable_end(self, start: int, stop: int) -> int:
            asked.append(stop)
            return stop

    assert first_store_timestamp(Asked(0, first_record().ljust(SIZE, b"\0")), LINE_4_9) == HOUR_MS  # type: ignore[arg-type]
    assert asked == [SEGMENT_HEAD_SIZE]
