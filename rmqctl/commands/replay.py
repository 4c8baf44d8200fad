"""replay: send stored messages into a live cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.options import require_folder
from rmqctl.put_form import map_of
from rmqctl.result import Result, Table
from rmqctl.show import count
from rmqctl.store_times import Since, Until, and_store_times

if TYPE_CHECKING:
    from store import StoredMessage
    from store.verbs import Chooser, Replay, ReplayReport

EXAMPLES = (
    "rmqctl replay /copy/store --losses --to 10.0.0.5:9876 --dry-run",
    "rmqctl replay /copy/store --losses --to 10.0.0.5:9876 --ledger /data/replay-1 --verify",
    "rmqctl replay /data/store --topic Orders --since -2h --to 10.0.0.5:9876 --topic-map Orders=Again --ledger again",
    "rmqctl replay /data/store --topic %DLQ%billing --to 10.0.0.5:9876 --ledger /data/replay-2",
)
SEE_ALSO = ("simulate", "stale", "salvage", "export", "put")
FILES = ("commitlog",)
EXIT_CODES = {
    1: "A message was refused, is in doubt or was not sent; or a dry run shows that one would be refused. No chosen "
    "message has an id of --id."
}
CONTINUE = "note: run the same command again to continue; with --verify it first searches messages in doubt"
SHOWN_IDS = 5
PLANNED = ("topic", "message_count", "body_bytes", "delayed_count", "already_count", "refused_count")
SENT = ("topic", "message_count", "acknowledged_count", "already_count", "refused_count", "doubt_count", "held_count")
LEFT_OUT = {
    "damaged": "with a body that does not match the CRC",
    "unreadable": "with a body that cannot be decompressed, which stops a consumer",
    "empty": "with an empty body, which stops a consumer of 4.x",
    "placeholder": "placeholders of a salvage",
    "half": "half messages",
    "ended": "half messages that were committed or rolled back",
    "discarded": "half messages that were checked too often",
    "op": "ends of transactions",
    "rolled-back": "messages that were rolled back",
    "recalled": "timer messages that were recalled, and the recalls",
    "delayed": "delayed messages whose delivered copy is sent",
    "retried": "retries of messages that are sent",
    "system": "in topics of the broker's own",
}

From = Annotated[
    str | None,
    typer.Argument(metavar="[FROM]", help="A store's folder, a URI or backup:PATH.", show_default="--store"),
]
To = Annotated[str, typer.Option("--to", metavar="HOST:PORT", help="A name server (several with ;), or one broker.")]
LedgerFolder = Annotated[
    Path | None,
    typer.Option(metavar="DIR", callback=require_folder, help="Folder of the ledger; with it a later run continues."),
]
Where = Annotated[
    str | None, typer.Option(metavar="SQL", help="Only messages that satisfy this (see export).", show_default="all")
]
Topics = Annotated[
    list[str] | None, typer.Option(metavar="TOPIC", help="Only of or delayed for this topic; repeatable.")
]
Ids = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="ID", help="Only this message id or unique key; @FILE lists several; repeatable."),
]
Losses = Annotated[bool, typer.Option("--losses", help="Only messages that the broker's next start loses (simulate).")]
Stale = Annotated[bool, typer.Option("--stale", help="Only messages that `stale` lists as lost.")]
TopicMap = Annotated[list[str] | None, typer.Option(metavar="OLD=NEW", help="Send to another topic; repeatable.")]
Half = Annotated[bool, typer.Option("--half", help="Also half messages without an end, as plain messages.")]
Ordered = Annotated[
    bool, typer.Option("--ordered", help="Keep the order of each queue; else messages go to all queues in turn.")
]
Rate = Annotated[float | None, typer.Option(min=0.01, metavar="N", help="Messages a second at most.")]
Verify = Annotated[
    bool, typer.Option("--verify", help="Search the broker for messages in doubt, before and after sending.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be sent and refused; send nothing.")]


def run(
    ctx: typer.Context,
    source: From = None,
    to: To = "",
    ledger: LedgerFolder = None,
    where: Where = None,
    topic: Topics = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    losses: Losses = False,
    stale: Stale = False,
    topic_map: TopicMap = None,
    half: Half = False,
    ordered: Ordered = False,
    rate: Rate = None,
    verify: Verify = False,
    dry_run: DryRun = False,
) -> Result:
    """Send stored messages into a live cluster.

    They become new messages with the same keys, tags, properties, flag, body, born time and unique key (UNIQ_KEY). The
    property RMQCTL_ORIGIN holds the id of the old record. A waiting delayed message goes to its topic with the rest of
    its delay. Retries (%RETRY%group) and dead letters (%DLQ%group) go to %RETRY%group, so only this group gets them
    again; --topic-map sends them elsewhere. Half messages are left out without --half; other system topics and damaged
    bodies are always left out. Messages left out are counted. No topic is created.

    Each message is written to the ledger before it is sent. After a kill, run the same command again: acknowledged
    messages are not sent again. Messages in doubt are sent again, and listed, because they may be there twice. With
    --verify the broker is searched first, and messages found there are not sent again. A ledger is for one cluster. The
    store FROM should not change meanwhile.
    """
    from store.engine.remoting import Cluster
    from store.layout import is_address
    from store.verbs import Ledger, Replay, acknowledged_in, plan_replay

    session: Session = ctx.obj
    if source is not None:
        uri = source if is_address(source) else None
        session.options = session.options._replace(store=Path(source), uri=uri)
    if stale and (where or since or until or ids or losses):
        raise typer.BadParameter("it chooses the messages itself; combine it only with --topic", param_hint="--stale")
    _check_places(session, to, None if dry_run else ledger, needs_ledger=not dry_run)
    chooser = _chooser(session, topic_map, topic, half)
    condition = _condition(session, where, topic, since, until, losses=losses, half=half)
    records = _stale_records(session, topic) if stale else _records(session, condition, _ids(ids))
    messages = chooser.messages(_met(session, records, topic))
    # A wrong FROM is said before the target is asked.
    session.store.open_reached()
    with closing(Cluster(to, session.environment.clock_ms)) as target:
        if dry_run or ledger is None:
            known = partial(acknowledged_in, ledger, target=to)
            report = plan_replay(target, messages, session.environment.clock_ms(), known)
            return _planned(session, report, chooser)
        with Ledger(ledger, str(session.store.place), to, session.environment.clock_ms()) as book:
            replay = Replay(target, book, session.environment.clock_ms, ordered, rate)
            return _run(session, replay, messages, chooser, verifies=verify)


def _check_places(session: Session, to: str, ledger: Path | None, *, needs_ledger: bool) -> None:
    """Raise a usage error for a missing target or ledger folder, or a ledger inside of the store."""
    if not to:
        raise typer.BadParameter("name the target: a name server or a broker", param_hint="--to")
    if ledger is None and needs_ledger:
        raise typer.BadParameter("name a folder for the ledger, or look first with --dry-run", param_hint="--ledger")
    if ledger is not None and session.options.uri is None:
        session.refuse_inside(session.store.root, ledger)


def _run(session: Session, replay: Replay, messages: Iterator[Any], chooser: Chooser, *, verifies: bool) -> Result:
    ledger, found = replay.ledger, Counter[Any]()
    if verifies:
        with session.progress("searching messages in doubt"):
            found = replay.verify()
    try:
        with session.progress("sending", unit="messages") as bar:
            replay.on_progress = bar.update
            report = replay.run(messages)
    except KeyboardInterrupt:
        counts = ledger.counts()
        session.note(f"note: the ledger has {counts['acknowledged']} acknowledged messages, {counts['doubt']} in doubt")
        session.note(CONTINUE)
        raise
    if verifies:
        with session.progress("searching messages in doubt"):
            found += replay.verify()
    counts, uncertain = ledger.counts(), ledger.uncertain()
    sent, doubts, unsent = report.total("acknowledged"), counts["doubt"], report.total("held") + counts["again"]
    facts = {
        "ledger": str(ledger.path),
        "ledger_id": ledger.id,
        "run": ledger.run,
        "stop_reason": report.stopped_by or None,
        "verified_counts": {str(outcome): number for outcome, number in found.items()},
        **{f"ledger_{word}_count": number for word, number in counts.items()},
        "left_out": dict(chooser.left_out),
    }
    rows = [dict(zip(("topic", "uniq_key", "origin_msg_id", "certainty"), row, strict=True)) for row in uncertain]
    tables = [_topics(report, SENT), Table("refused", _refused_rows(report)), Table("uncertain", rows)]
    verdict = f"{count(sent, 'message')} sent, {report.total('already')} were there, {report.total('refused')} refused"
    verdict += f", {doubts} in doubt" + (f"; {counts['twice']} may be there twice" if counts["twice"] else "")
    if report.stopped_by:
        verdict = f"stopped: {report.stopped_by}; {verdict}"
    bad = report.stopped_by or doubts or unsent or report.total("refused") or _damaged(chooser)
    _say_left_out(session, chooser)
    _say_unmapped(session, chooser, report)
    if report.stopped_by or doubts or unsent:
        session.note(CONTINUE)
    return Result("replay", facts, tables, FINDINGS if bad else OK, verdict)


def _planned(session: Session, report: ReplayReport, chooser: Chooser) -> Result:
    refused, already = report.total("refused"), report.total("already")
    would = report.total("chosen") - refused - already
    verdict = f"would send {count(would, 'message')}; {refused} would be refused"
    verdict += f", {already} are there by the ledger" if already else ""
    facts = {"left_out": dict(chooser.left_out)}
    tables = [_topics(report, PLANNED), Table("refused", _refused_rows(report))]
    _say_left_out(session, chooser)
    _say_unmapped(session, chooser, report)
    bad = refused or _damaged(chooser)
    return Result("replay", facts, tables, FINDINGS if bad else OK, verdict, is_plan=True)


def _say_left_out(session: Session, chooser: Chooser) -> None:
    if chooser.left_out:
        kinds = ", ".join(f"{number} {LEFT_OUT[kind]}" for kind, number in sorted(chooser.left_out.items()))
        session.warn(f"left out: {kinds}")


def _say_unmapped(session: Session, chooser: Chooser, report: ReplayReport) -> None:
    """Warn of topics of --topic-map that no chosen message has."""
    for topic in sorted(chooser.topics.keys() - chooser.mapped if not report.stopped_by else ()):
        session.warn(f"no message of {topic} was chosen: --topic-map names it without effect")


def _damaged(chooser: Chooser) -> int:
    return sum(chooser.left_out[kind] for kind in ("damaged", "unreadable", "empty"))


def _topics(report: ReplayReport, shown: tuple[str, ...]) -> Table:
    words = ("delayed", "acknowledged", "already", "refused", "doubt", "again", "held", "repeated")
    rows = [
        {"topic": topic, "message_count": counts["chosen"], "body_bytes": counts["bytes"]}
        | {f"{word}_count": counts[word] for word in words}
        for topic, counts in sorted(report.counts.items())
    ]
    return Table("topics", rows, shown)


def _refused_rows(report: ReplayReport) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "reason": reason, "message_count": number}
        for (topic, reason), number in sorted(report.refused.items())
    ]


# The choice of messages.


def _chooser(session: Session, topic_map: list[str] | None, chosen: list[str] | None, half: bool) -> Chooser:
    from store import StoreConfig
    from store.verbs import Chooser

    topics = map_of(topic_map or (), "--topic-map")
    if chosen and (others := topics.keys() - set(chosen)):
        reason = f"--topic chooses no message of {', '.join(sorted(others))}"
        raise typer.BadParameter(reason, param_hint="--topic-map")
    levels = StoreConfig().with_settings(session.store.settings()).delay_levels_ms
    return Chooser(topics, levels, half)


def _condition(
    session: Session,
    where: str | None,
    topics: list[str] | None,
    since: str | None,
    until: str | None,
    *,
    losses: bool,
    half: bool,
) -> str | None:
    from store.formats import OP_TOPIC

    timed = and_store_times(session, where, since, until)
    parts = [timed] if timed is not None else []
    if topics:
        names = ", ".join("'" + topic.replace("'", "''") + "'" for topic in topics)
        parts.append(f"(topic in ({names}) or properties['REAL_TOPIC'] in ({names}))")
    if losses:
        from rmqctl.commands.simulate import simulated

        start = simulated(session, None)
        if not start.starts:
            from store.errors import BadRequest

            raise BadRequest(f"a {start.compat} broker does not start, so it loses nothing yet: {start.reason}")
        parts.append(f"log_offset >= {start.log_end}")
    condition = " and ".join(parts) or None
    return f"({condition}) or topic = '{OP_TOPIC}'" if condition and half else condition


def _ids(given: list[str] | None) -> set[str] | None:
    if given is None:
        return None
    from store.files import os_errors

    found: set[str] = set()
    for text in given:
        if text.startswith("@"):
            with os_errors(Path(text[1:]), "read"):
                found.update(Path(text[1:]).read_text(encoding="utf-8").split())
        else:
            found.add(text)
    return found


def _records(session: Session, condition: str | None, ids: set[str] | None) -> Iterator[StoredMessage]:
    from rmqctl.querying import embedded_engine
    from store.formats import decode_record
    from store.query.embedded import read_records

    place = str(session.store.place)
    readers = session.store.open_readers([place])
    wanted = frozenset(ids or ())
    with embedded_engine(session, readers) as engine:
        for data in read_records(engine, condition):
            record = decode_record(data)
            if ids is None or record.msg_id in wanted or record.uniq_key in wanted:
                yield record
                if ids is not None:
                    ids.difference_update((record.msg_id, record.uniq_key))
    session.store.warn_of_damage(readers.values())
    if ids:
        shown = ", ".join(sorted(ids)[:SHOWN_IDS]) + (", …" if len(ids) > SHOWN_IDS else "")
        session.warn(f"{count(len(ids), 'id')} not found among the chosen messages: {shown}")
        session.met_findings = True


def _met(session: Session, records: Iterator[StoredMessage], topics: list[str] | None) -> Iterator[StoredMessage]:
    """Yield the records; after them, warn of topics of --topic that none has."""
    unmet = set(topics or ())
    for record in records:
        if unmet:
            unmet -= {record.topic, record.properties.get("REAL_TOPIC", "")}
        yield record
    for topic in sorted(unmet):
        session.warn(f"no message of {topic} was chosen: --topic names it without effect")


def _stale_records(session: Session, topics: list[str] | None) -> Iterator[StoredMessage]:
    from store.formats import decode_record
    from store.verbs import find_stale

    root, fs = session.store.reached
    for one in find_stale(session.store.open_reached(), root, fs):
        if one.state.value == "lost" and (topics is None or one.topic in topics):
            yield decode_record(one.read(fs))
