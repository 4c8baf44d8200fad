"""filter: SQL subscriptions of consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.completion import complete_topic
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.result import Result, Table
from rmqctl.show import count

if TYPE_CHECKING:
    from store.structures.tables import ConsumerFilter

EXAMPLES = {
    "filter show": ("rmqctl --store /data/store filter show", "rmqctl --store /data/store filter show --group billing"),
    "filter register": (
        "rmqctl --store /tmp/store filter register billing OrderTopic \"amount > 5 AND region = 'eu'\"",
    ),
    "filter unregister": ("rmqctl --store /tmp/store filter unregister billing",),
}
SEE_ALSO = {
    "filter show": ("get", "config show"),
    "filter register": ("serve", "filter show", "get"),
    "filter unregister": ("serve", "filter show"),
}
FILES = ("config",)
_NOT_SERVED = {2: "No process serves the store, or the expression does not compile."}
EXIT_CODES = {
    "filter show": {1: "A broker ignores the file, or an expression does not compile."},
    "filter register": {1: "A newer subscription of the group is registered.", **_NOT_SERVED},
    "filter unregister": {2: "No process serves the store."},
}
COLUMNS = ("group", "topic", "expression", "is_dead", "compiles", "born_timestamp_ms")

Group = Annotated[str, typer.Argument(metavar="GROUP", help="Consumer group.", show_default=False)]
Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="Topic.", show_default=False, autocompletion=complete_topic)
]


def run_show(
    ctx: typer.Context,
    group: Annotated[str | None, typer.Option(metavar="GROUP", help="Only of this consumer group.")] = None,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only for this topic.")] = None,
) -> Result:
    """Show the SQL subscriptions of consumer groups.

    They are stored in config/consumerFilter.json. Subscriptions by tags are in no file. A group without consumers is
    dead, and every group is dead when a broker starts; 24 hours later the broker forgets it. With
    enableCalcFilterBitMap each message has a bit map in consumequeue_ext/, and bit_positions lists the bits of the
    group. An expression that does not compile selects every message.
    """
    session: Session = ctx.obj

    from store.reading import load_filters
    from store.structures.tables import read_consumer_filters

    opened, fs = session.store.open(), session.store.reached[1]
    session.store.warn_of_unloaded(opened, "consumerFilter.json")
    found = read_consumer_filters(opened.layout.config, fs)
    table = load_filters(opened.layout, opened.config, fs, session.environment.clock_ms())
    if table.is_ignored:
        session.warn(
            "a broker ignores config/consumerFilter.json: its bits are not those of maxErrorRateOfBloomFilter "
            "and expectConsumerNumUseFilter"
        )
    rows = [_row(one) for one in found if group in (None, one.group) and topic in (None, one.topic)]
    uncompiled = sum(not row["compiles"] for row in rows)
    facts = {"is_ignored": table.is_ignored, "bit_count": table.bloom.bit_count}
    verdict = "no subscription" if not rows else count(len(rows), "subscription")
    if uncompiled:
        verdict += f", {uncompiled} with an expression that does not compile"
    wrong = table.is_ignored or uncompiled
    return Result("filter show", facts, [Table("filters", rows, COLUMNS)], FINDINGS if wrong else OK, verdict)


def run_register(
    ctx: typer.Context,
    group: Group,
    topic: Topic,
    expression: Annotated[str, typer.Argument(metavar="SQL", help="SQL92 expression.", show_default=False)],
) -> Result:
    """Subscribe a consumer group of a served store by SQL.

    Does what a consumer's heartbeat does in a broker. From then on `get --group` returns what the expression selects,
    and new messages get the group's bits if enableCalcFilterBitMap and enableConsumeQueueExt are on. A former
    expression of the group for this topic is replaced.
    """
    session: Session = ctx.obj
    served = session.store.connect_served()
    is_taken = served.filters.register(group, topic, expression)
    facts = {
        "process_id": served.process_id, "group": group, "topic": topic, "expression": expression,
        "is_registered": is_taken,
    }  # fmt: skip
    verdict = f"{group} takes {expression} of {topic}" if is_taken else f"{group} has a newer subscription to {topic}"
    return Result("filter register", facts, [], OK if is_taken else FINDINGS, verdict)


def run_unregister(ctx: typer.Context, group: Group) -> Result:
    """Mark the SQL subscriptions of a group as dead.

    Does what happens when a group's last consumer leaves a broker. New messages still get its bits. After 24 hours the
    subscriptions are forgotten.
    """
    session: Session = ctx.obj
    served = session.store.connect_served()
    served.filters.unregister(group)
    facts = {"process_id": served.process_id, "group": group}
    return Result("filter unregister", facts, verdict=f"the subscriptions of {group} are dead")


def _row(one: ConsumerFilter) -> dict[str, Any]:
    from store.reading import compile_subscription

    return {
        "group": one.group,
        "topic": one.topic,
        "expression_type": one.expression_type,
        "expression": one.expression,
        "compiles": compile_subscription(one) is not None,
        "is_dead": one.is_dead,
        "born_timestamp_ms": one.born_time_ms,
        "dead_timestamp_ms": one.dead_time_ms or None,
        "client_version": one.client_version,
        "bit_positions": list(one.positions),
    }
