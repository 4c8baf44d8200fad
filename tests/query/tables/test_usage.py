"""usage as a query, and its answer with shares and times."""

from __future__ import annotations

import pytest

from store.errors import BadRequest
from store.query.tables.usage import usage_query, usage_rows

SUMS = (
    "count(*) as message_count, sum(size) as size_bytes, min(store_timestamp) as first_time, "
    "max(store_timestamp) as last_time from messages"
)
DAY = "cast(cast(store_timestamp as date) as string) as day"


@pytest.mark.parametrize(
    ("by", "options", "query"),
    [
        (["topic"], {}, f"select topic as topic, {SUMS} group by 1 order by size_bytes desc, 1"),
        (
            ["queue", "tag"],
            {"where": "size > 5"},
            (
                f"select queue_id as queue_id, tags as tag, {SUMS} where size > 5 group by 1, 2 "
                "order by size_bytes desc, 1, 2"
            ),
        ),
        (
            ["day", "topic"],
            {"by_store": True},
            f"select store as store, {DAY}, topic as topic, {SUMS} group by 1, 2, 3 order by size_bytes desc, 1, 2, 3",
        ),
    ],
)
def test_the_query_groups_by_its_first_columns(by: list[str], options: dict[str, object], query: str) -> None:
    assert " ".join(usage_query(by, **options).split()) == query  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("by", "said"), [([], "cannot group by nothing"), (["topic", "x", "y"], "cannot group by x, y")]
)
def test_unknown_groups_are_refused(by: list[str], said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        usage_query(by)


def test_each_group_has_its_share_of_all_bytes_and_its_times() -> None:
    times = {"first_time": "1970-01-01T00:00:01.500+00:00", "last_time": "1970-01-01T00:00:02+00:00"}
    answer = [{"topic": name, "size_bytes": size, **times} for name, size in (("T", 2), ("U", 1))]
    assert usage_rows(answer) == [
        {"topic": "T", "size_bytes": 2, "share_percent": 66.67, "first_ms": 1500, "last_ms": 2000},
        {"topic": "U", "size_bytes": 1, "share_percent": 33.33, "first_ms": 1500, "last_ms": 2000},
    ]
    assert usage_rows([]) == []
