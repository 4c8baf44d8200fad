"""Queries at random, of what both engines are offered."""

from __future__ import annotations

import re
from random import Random

from store.query.tables.dialect import WRITTEN

NUMBERS = ("queue_id", "queue_offset", "log_offset", "size", "flag", "sys_flag", "reconsume_times", "body_size")
TEXTS = ("topic", "tags", "uniq_key", "born_host", "compression", "body_state", "properties['KEYS']")
TRUTHS = ("crc_ok", "tags is null", "array_contains(keys, 'order5')", "contains(topic, 'A')")

OF_ANY_KIND = (
    "size", "7", "log_offset", "1.5", "cast(size as double)", "topic", "'2'", "'a'", "crc_ok", "true",
    "store_timestamp", "timestamp '2020-01-02 03:04:05'", "date '2020-01-02'", "cast(store_timestamp as date)", "body",
    "keys", "properties", "null", "interval 1 day",
)  # fmt: skip
FORMS = (
    "-{0}", "not {0}", "sum({0})", "avg({0})", "min({0})", "max({0})", "count({0})", "count(distinct {0})",
    "count_if({0})", "bool_and({0})", "bool_or({0})", "abs({0})", "round({0})", "round({0}, 1)", "round(1.5, {0})",
    "floor({0})", "ceil({0})", "year({0})", "month({0})", "day({0})", "hour({0})", "minute({0})", "second({0})",
    "trim({0})", "upper({0})", "lower({0})", "hex({0})", "md5({0})", "length({0})", "char_length({0})",
    "octet_length({0})", "size({0})", "cardinality({0})", "array_size({0})", "map_keys({0})", "map_values({0})",
    "unix_millis({0})", "date_trunc('day', {0})", "date_trunc({0}, {1})", "get(keys, {0})", "substr({0}, {1})",
    "substr(topic, 1, {0})", "lag({0}) over (order by log_offset)", "lag({0}, 1, {1}) over (order by log_offset)",
    "lag(size, {0}) over (order by log_offset)", "rank() over (partition by {0} order by log_offset)",
    "row_number() over (order by {0}, log_offset)", "{0} like 'a%'", "{0} like {1}", "{0} is null", "{0} is not null",
    "case when {0} then {1} end", "case {0} when {1} then 1 end", "if({0}, {1}, 2)", "if(true, {0}, {1})",
    "properties[{0}]", "count(*) filter (where {0})", "extract(day from {0})", "exists (select 1 where {0})",
    "{0} in (select {1})", "(select {0} limit 1)", "cast({0} as string)", "cast({0} as int)", "cast({0} as bigint)",
    "cast({0} as double)", "cast({0} as date)", "cast({0} as timestamp)", "cast({0} as boolean)", "{0} + {1}",
    "{0} - {1}", "{0} * {1}", "{0} / {1}", "{0} % {1}", "{0} & {1}", "{0} || {1}", "{0} = {1}", "{0} <> {1}",
    "{0} < {1}", "{0} >= {1}", "{0} and {1}", "{0} or {1}", "{0} in ({1})", "{0} in ({1}, null)",
    "{0} between {1} and {0}", "coalesce({0}, {1})", "nvl({0}, {1})", "ifnull({0}, {1})", "nullif({0}, {1})",
    "greatest({0}, {1})", "least({0}, {1})", "contains({0}, {1})", "startswith({0}, {1})", "endswith({0}, {1})",
    "array_contains({0}, {1})", "replace({0}, {1}, 'x')", "sum({0}) over (order by log_offset)",
)  # fmt: skip
PLACES = (
    "select {0} from messages", "select {0}, {1} from messages", "select distinct {0} from messages",
    "select log_offset from messages where {0}", "select count(*) from messages group by {0}",
    "select log_offset from messages order by {0}, log_offset", "select count(*) from messages having {0}",
    "select {0} from messages union select {1} from messages",
    "select {0} c from messages except select {1} from messages",
    "select {0} from messages union all select {1} from messages", "select 1 from messages where {0} = {1}",
    "select {0} from messages intersect select {1} from messages",
    "select c, c = {1} from (select {0} c from messages)",
    "select m.size from messages m join consumequeue c on m.log_offset = c.log_offset and {0} = {1}",
    "select count(*) from (select {0} c from messages) a join (select {1} c from messages limit 3) b using (c)",
    "select size from messages where {0} in (select {1} from messages)",
    "with t as (select {0} c from messages) select c from t group by c",
)  # fmt: skip

ODD_TEXTS = (
    "1", "-0", "+5", "--5", "+-5", "- 5", "", " 7 ", "7\t", "\n7", "\x007", "\xa07", "1.5", "-2.5", ".5", "5.", ".",
    "1e3", "1E+3", "e5", "1_000", "1_0.5", "0x10", "0b1", "0x1p3", "1d", "1.5F", "1L", "007", "\u0663", "1,000", "5a",
    "2147483647", "2147483648", "-2147483649", "9223372036854775807", "9223372036854775808", "1e400", "-1e-400", "0.1",
    "Infinity", "-inf", "+INF", "infinit", "NaN", "-nan", "+NaN", "t", "F", "true", "TRUE", " true", "tr", "y", "No",
    "on", "off", "2", "null", "2024-01-05", "2024-1-5", "2024-01", "2024", "epoch", "now", "today", "infinity",
    "2024/01/05", "20240105", " 2024-01-05", "2024-01-05\n", "2024-01-05T", "2024-01-05 10", "2024-01-05 10:00",
    "2024-01-05 10:00Z", "2024-01-05 10:00:00", "2024-01-05T10:00:00Z", "2024-01-05 10:00:00.123456",
    "2024-01-05 10:00:00.1234567", "2024-01-05 10:00:00+01", "2024-01-05 10:00:00+01:00", "2024-01-05 10:00:00-17:59",
    "2024-01-05 10:00:00+18:00", "2024-01-05 10:00:00+10:60", "2024-01-05 10:00:00 UTC", "2024-01-05 24:00:00",
    "2024-01-05 23:60", "2024-02-30", "2024-13-01", "2023-02-29", "0000-01-01", "0999-01-01", "1000-01-01",
    "9999-12-31", "10000-01-01", "-2024-01-05", "1582-10-10", "10:00:00", "it's", "2024-01-05 10:00:00 Europe/Berlin",
)  # fmt: skip
"""Texts that an engine might read as a value of another type."""
TYPES = tuple(WRITTEN)


def of_any_kind(source: Random) -> str:
    """A query with operators and functions of values of all kinds: most are of no sense."""

    def value(depth: int) -> str:
        if depth == 0 or source.random() < 0.5:
            odd = source.choice(ODD_TEXTS).replace("'", "''")
            return source.choice((*OF_ANY_KIND, f"'{odd}'", f"'{odd}'"))
        return f"({source.choice(FORMS).format(value(depth - 1), value(depth - 1))})"

    form = source.choice(FORMS)
    return source.choice(PLACES).format(form.format(value(1), value(1)), value(1))


def casts(source: Random) -> str:
    """A query that reads odd texts as values of other types; it needs each of them."""

    def cast(depth: int) -> str:
        kind = source.choice((*TYPES, "string") if depth < 2 else TYPES)
        if depth == 0 or source.random() < 0.6:
            fitting = [text for text in ODD_TEXTS if kind != "string" and re.fullmatch(WRITTEN[kind][1], text)]
            odd = source.choice(source.choice((fitting, ODD_TEXTS)) or ODD_TEXTS).replace("'", "''")
            cut = source.randrange(len(odd) + 1) if "''" not in odd else 0
            inner = source.choice((
                f"'{odd}'", f"('{odd}')", f"'{odd[:cut]}' || '{odd[cut:]}'", f"replace('{odd}', file, '')",
                f"coalesce(reason, '{odd}')", f"if(file_size > 0, '{odd}', file)",
            ))  # fmt: skip
        else:
            inner = cast(depth - 1)
        return f"cast({inner} as {kind})"

    return f"select {cast(2)} a from segments where file_start = 0"


def number(source: Random, depth: int = 2) -> str:
    if depth == 0 or source.random() < 0.3:
        return source.choice((*NUMBERS, "length(body)", "size(keys)", "7", "unix_millis(store_timestamp)"))
    inner = number(source, depth - 1)
    return source.choice((
        f"{inner} + {number(source, 0)}", f"{inner} - {number(source, 0)}", f"({inner}) % 7", f"({inner}) / 4",
        f"-({inner})", f"abs({inner})", f"cast({inner} as bigint)", f"floor(({inner}) / 8)", f"ceil(({inner}) / 8)",
        f"cast(({inner}) / 3 as bigint)", f"length({text(source, depth - 1)})", f"{inner} * 1.5",
        f"coalesce({inner}, 0)", f"case when {truth(source, depth - 1)} then {inner} else 0 end",
        f"greatest({inner}, 300)", f"nullif({inner}, 1)", "hour(store_timestamp)", "cast(tags is null as int)",
    ))  # fmt: skip


def text(source: Random, depth: int = 2) -> str:
    if depth == 0 or source.random() < 0.3:
        return source.choice((*TEXTS, "'é'", "''"))
    inner = text(source, depth - 1)
    return source.choice((
        f"upper({inner})", f"lower({inner})", f"trim({inner})", f"{inner} || 'x'", f"replace({inner}, 'a', 'bb')",
        f"substr({inner}, {source.randrange(-3, 5)}, 2)", f"substring({inner}, {source.randrange(-3, 5)})",
        f"coalesce({inner}, 'none')", f"get(keys, {source.randrange(-1, 3)})", "hex(body)",
        "cast(size as string)", "cast(store_timestamp as string)", "cast(cast(store_timestamp as date) as string)",
        f"md5({inner})", f"if({truth(source, 0)}, {inner}, 'no')",
    ))  # fmt: skip


def truth(source: Random, depth: int = 2) -> str:
    if depth == 0 or source.random() < 0.2:
        return source.choice(TRUTHS)
    return source.choice((
        f"{number(source, depth - 1)} {source.choice(('=', '<>', '<', '>=', '!='))} {number(source, depth - 1)}",
        f"{text(source, depth - 1)} {source.choice(('=', '<', '>='))} {text(source, depth - 1)}",
        f"not ({truth(source, depth - 1)})", f"{text(source, depth - 1)} is not null",
        f"({truth(source, depth - 1)} {source.choice(('and', 'or'))} {truth(source, depth - 1)})",
        f"{number(source, 0)} between 1 and 300", "queue_id in (0, 2)", "topic like 'Topic%'",
    ))  # fmt: skip


def any_value(source: Random) -> str:
    return source.choice((number, text, truth))(source)


def query(source: Random) -> str:
    """A query whose rows have one order where it asks for one."""
    where = f" where {truth(source)}" if source.random() < 0.5 else ""
    if source.random() < 0.4:
        keys = [any_value(source) for _ in range(source.randrange(3))]
        made = source.sample(("count(*)", "sum(size)", "avg(size)", "max(tags)", "count(tags)", "min(log_offset)"), 2)
        made += [f"count_if({truth(source, 1)})", f"count(distinct {any_value(source)})"][: source.randrange(3)]
        columns = ", ".join([*keys, *made])
        group = f" group by {', '.join(str(place + 1) for place in range(len(keys)))}" if keys else ""
        order = " order by all" if group and source.random() < 0.5 else ""
        return f"select {columns} from messages{where}{group}{order}"
    columns = ", ".join(
        any_value(source) + source.choice(("", "", f" c{place}", f" as c{place}")) for place in range(2)
    )
    if source.random() < 0.3:
        return f"select distinct {columns} from messages{where}"
    order = source.choice(("", f" order by {text(source)} {source.choice(('', 'desc'))}, log_offset limit 20"))
    return f"select {columns}, log_offset from messages{where}{order}"
