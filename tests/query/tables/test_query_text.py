"""What a text of SQL is taken for: a query or a change, and the columns that it may mean."""

from __future__ import annotations

import pytest

from store.errors import BadRequest
from store.query.tables.query_text import check_is_query, columns_named, require_shallow, tables_named
from store.query.tables.schema import CONSUMEQUEUE, MESSAGES


@pytest.mark.parametrize(
    "text",
    [
        "select 1",
        "  ( SELECT topic from messages )",
        "-- how many\nselect count(*) from messages",
        "/* one /* in another */ insert */ select 1",
        "with m as (select topic from messages) select * from m",
        "desc messages",
        "show columns in messages",
        "explain select 1",
        "select 1 from messages where topic = 'insert into x' -- delete from y",
        r"select r'\', update_time, 'it\'s; insert into x' from messages",
    ],
)
def test_what_only_asks_is_taken(text: str) -> None:
    check_is_query(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("insert overwrite directory '/tmp/x' using csv select 1", "insert"),
        ("/* select */ INSERT INTO x select 1", "insert"),
        ("-- select\ncreate table x as select 1", "create"),
        ("with a as (select 1) insert /* */ overwrite directory '/tmp/x' using csv select * from a", "insert"),
        ("from messages insert overwrite directory '/tmp/x' using csv select topic", "insert"),
        ("from messages select topic", "from"),
        ("table messages", "table"),
        ("values (1)", "values"),
        (r"with a as (select r'\') insert into x select ' '", "insert"),
        ("with a as (select 1) delete from x", "delete"),
        ("with a as (select 1) merge into x using a on true when matched then delete", "merge"),
        ("with a as (select 1) update x set y = 1", "update"),
        ("drop view messages", "drop"),
        ("set a = b", "set"),
        ("begin insert into x select 1; end", "insert"),
        ("", ""),
        ("+" * 21, r"\+{20}"),
    ],
)
def test_what_would_change_something_is_refused(text: str, word: str) -> None:
    with pytest.raises(BadRequest, match=f"queries only, not '{word}'"):
        check_is_query(text)


def test_brackets_may_be_nested_500_times() -> None:
    require_shallow(f"){'(' * 500}")
    with pytest.raises(BadRequest, match="more than 500 brackets inside brackets; take some of them away"):
        require_shallow("(" * 501)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("select count(*) from messages", ["size"]),
        ("select topic, sum(m.SIZE) from messages m group by 1", ["topic", "size"]),
        ("with m as (select `queue_id` q from messages) select max(q) from m", ["queue_id"]),
        ("select /*+ coalesce(1) */ topic from messages where topic like '%*%'", ["topic"]),
        ("select count(1) from messages join consumequeue using (log_offset)", ["log_offset"]),
    ],
)
def test_a_plain_select_means_the_columns_that_it_names(text: str, names: list[str]) -> None:
    assert list(columns_named(text, "messages")) == names


@pytest.mark.parametrize(
    "text",
    [
        "select * from messages",
        "select count(*) from messages m natural join consumequeue c",
        "describe messages",
        "from messages",
        "from messages |> aggregate count(1) group by topic",
        "table messages",
        "(table messages)",
        "show columns in messages",
        "explain select topic from messages",
        "with m as (from messages) select count(1) from m",
        "select topic from messages union all from messages",
        "select count(1) from (table messages)",
        "select 1 from messages pivot (sum(size) for queue_id in (1, 2))",
    ],
)
def test_all_columns_are_there_where_some_are_meant_without_their_names(text: str) -> None:
    assert columns_named(text, "messages") == MESSAGES
    assert columns_named(text, "consumequeue") == CONSUMEQUEUE


def test_the_tables_are_those_that_are_named_and_all_for_show() -> None:
    assert tables_named("select 1 from Messages m join `index` i") == ["messages", "index"]
    assert len(tables_named("show tables")) == 5
