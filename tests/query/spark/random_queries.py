"""Queries at random, of what both engines are offered."""

from __future__ import annotations

from random import Random

NUMBERS = ("queue_id", "queue_offset", "log_offset", "size", "flag", "sys_flag", "reconsume_times", "body_size")
TEXTS = ("topic", "tags", "uniq_key", "born_host", "compression", "body_state", "properties['KEYS']")
TRUTHS = ("crc_ok", "tags is null", "array_contains(keys, 'order5')", "contains(topic, 'A')")


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
