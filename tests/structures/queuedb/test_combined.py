"""Queues that are written twice: settings that a broker refuses, and the segment at which a start begins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from store.config import StoreConfig
from store.errors import DamagedFile
from store.structures.commitlog.start import Rule
from store.structures.queuedb.combined import Kinds, rule_of_both, settings_fault

FILES, DATABASE = "default", "defaultRocksDB"
BOTH = f"{FILES};{DATABASE}"


def config(loaded: str = BOTH, assigned: str = FILES, read: str = FILES, extra: int = 0, **more: bool) -> StoreConfig:
    return replace(
        StoreConfig(),
        combine_cq_loading_cq_types=loaded,
        combine_assign_offset_cq_type=assigned,
        combine_cq_prefer_cq_type=read,
        combine_cq_max_extra_search_commit_log_files=extra,
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("loaded", "assigned", "read", "fault"),
    [
        (BOTH, FILES, FILES, ""),
        (BOTH, DATABASE, DATABASE, ""),
        (f" {DATABASE.upper()} ;x", DATABASE, DATABASE, ""),
        ("", FILES, FILES, "CombineConsumeQueueStore loadingCQTypes is empty"),
        ("x;y", FILES, FILES, "CombineConsumeQueueStore loadingCQTypes is empty"),
        (DATABASE, FILES, FILES, "CombineConsumeQueue chooseAssignOffsetStore fail"),
        (DATABASE, FILES, DATABASE, "CombineConsumeQueue chooseAssignOffsetStore fail"),
        (FILES, FILES, DATABASE, "CombineConsumeQueue choosePreferCQ fail"),
    ],
)
def test_the_kinds_must_be_among_the_loaded(loaded: str, assigned: str, read: str, fault: str) -> None:
    found = settings_fault(config(loaded, assigned, read))
    assert found == (f"IllegalArgumentException: {fault}" if fault else "")


@pytest.mark.parametrize(("assigned", "other"), [(FILES, DATABASE), (DATABASE, FILES), ("DEFAULT", DATABASE)])
def test_the_other_kind_is_the_one_that_gives_no_offsets(assigned: str, other: str) -> None:
    kinds = Kinds.of(config(assigned=assigned, read=DATABASE))
    assert (kinds.assigned, kinds.read, kinds.other) == (assigned.lower(), "defaultrocksdb", other.lower())


def tried(given: StoreConfig, files_end: int, database_end: int) -> int | str:
    """The log offset at which a start begins, of segments of 100 from the newest, at 500; or what ends it."""
    rule = rule_of_both(
        given, Rule(lambda log_offset, time_ms: log_offset <= files_end, "reason"), files_end, database_end
    )
    assert rule.reason == "reason"
    try:
        return next((at for at in range(500, -1, -100) if rule.matches(at, 0)), -1)
    except DamagedFile as error:
        return f"{error.code}: {error.reason}"


REFUSED, REFUSED_FILES = (
    f"combined-database: IllegalArgumentException: {one} not satisfied readable conditions, only can read from {other}"
    for one, other in (
        ("RocksDBConsumeQueueStore", "ConsumeQueueStore"),
        ("ConsumeQueueStore", "RocksDBConsumeQueueStore"),
    )
)


@pytest.mark.parametrize(
    ("given", "files_end", "database_end", "begins"),
    [
        (config(), 450, 450, 400),
        (config(), 450, 0, 400),
        (config(), 450, -1, 400),
        (config(), 450, 350, 400),
        (config(extra=1), 450, 350, 300),
        (config(extra=1), 450, 250, 300),
        (config(extra=2), 450, 250, 200),
        (config(extra=9), 450, 300, 300),
        (config(extra=9), 450, 299, 200),
        (config(assigned=DATABASE), 350, 450, REFUSED_FILES),
        (config(assigned=DATABASE, read=DATABASE), 350, 450, 400),
        (config(assigned=DATABASE, read=DATABASE, extra=1), 350, 450, 300),
        (config(assigned=DATABASE, read=DATABASE), 0, 450, 400),
        (config(read=DATABASE), 450, 350, REFUSED),
        (config(read=DATABASE, extra=1), 450, 350, 300),
        (config(read=DATABASE, extra=1), 450, 250, REFUSED),
        (config(read=DATABASE, extra=2), 450, 250, 200),
    ],
)
def test_a_start_goes_back_some_segments_for_the_sake_of_the_other_kind(
    given: StoreConfig, files_end: int, database_end: int, begins: int | str
) -> None:
    assert tried(given, files_end, database_end) == begins
