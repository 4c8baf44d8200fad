"""dump: every field of every entry of a file."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.context import Session
from rmqctl.dumping import EntryFilter, EntryRows, NewEntries, files_of, folder_of, split_target
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.messages import BodyOption, MessageRows, StoredBody
from rmqctl.programs import json_for
from rmqctl.result import Result, Table
from rmqctl.show import count, show_value

if TYPE_CHECKING:
    from store.verbs import Asked, DumpedFile, DumpedFolder, Entry, EntryBlock

EXAMPLES = (
    "rmqctl --store /data/store dump commitlog --from 1073741824 --limit 20",
    "rmqctl dump commitlog /backup/00000000001073741824 --topic Orders --key order-4711 --hex",
    "rmqctl --store /data/store dump consumequeue Orders/3 --where 'size > 4096'",
    "rmqctl --store /data/store dump checkpoint --hex",
    "rmqctl --store /data/store dump commitlog --follow --format jsonl",
)
EXIT_CODES = {1: "Some bytes are damaged."}
FILES = ("commitlog", "consumequeue", "index", "checkpoint")
SEE_ALSO = ("info", "find", "check", "get")
PEOPLE_LIMIT = 100
FOLLOW_EVERY_S = 0.5


class Kind(StrEnum):
    """Values of KIND."""

    COMMITLOG = "commitlog"
    CONSUMEQUEUE = "consumequeue"
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    EXT = "ext"
    DELAY = "delay"
    TIMER = "timer"
    STATE = "state"
    MESSAGES = "messages"


COLUMNS = {
    Kind.COMMITLOG: ("kind", "log_offset", "size", "topic", "queue_id", "queue_offset", "tags", "keys"),
    Kind.CONSUMEQUEUE: ("kind", "queue_offset", "log_offset", "size", "tags_code", "file"),
    Kind.INDEX: ("kind", "entry_index", "slot", "key_hash", "log_offset", "store_timestamp_ms", "previous_entry"),
    Kind.EXT: ("kind", "ext_address", "size", "tags_code", "store_timestamp_ms", "bit_map"),
    Kind.DELAY: ("level", "saved_offset"),
    Kind.STATE: ("field", "value", "file"),
    Kind.MESSAGES: (
        "kind",
        "log_offset",
        "topic",
        "uniq_key",
        "index_type",
        "text",
        "deliver_timestamp_ms",
        "check_count",
    ),
}
FIELD_COLUMNS = ("position", "size", "field", "value", "hex")


def run(
    ctx: typer.Context,
    kind: Annotated[Kind, typer.Argument(help="What to dump.")],
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE|TOPIC/QUEUE]", help="A file, or a topic or queue of the store.", show_default="all"
        ),
    ] = None,
    from_text: Annotated[str | None, typer.Option("--from", metavar="N", help="From this offset on.")] = None,
    to_text: Annotated[str | None, typer.Option("--to", metavar="N", help="Up to this offset, included.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Records of this store time or later.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Records of this store time or earlier.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Entries at most; 0 for all.", show_default="100 for people, else all"),
    ] = None,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only records of this topic.")] = None,
    tags: Annotated[str | None, typer.Option(metavar="EXPR", help="Only records with these tags: 'A || B'.")] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="Only records with this key or unique key.")] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Only entries that satisfy this condition over their JSON names.")
    ] = None,
    hexadecimal: Annotated[
        bool, typer.Option("--hex", help="Show positions and bytes of fields; all with --wide.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Keep printing new entries, until Ctrl-C.")] = False,
    body: BodyOption = None,
    stored_body: StoredBody = False,
) -> Result | int:
    """Show every field of a file's entries.

    commitlog: records, blanks, damage and headers of DLedger entries. consumequeue: entries, also of batch queues and
    RocksDB. index: header and entries. checkpoint: its fields. ext: entries of consumequeue_ext. delay: delay offsets.
    timer: timerwheel, timerlog and timercheck. state: epochs, identity, tables and pop checkpoints of a 5.x broker.
    messages: keys, timers and half messages in the RocksDB of 5.4 and later.

    A file needs no store around it, and a segment may have any name. --from and --to are log offsets of records, queue
    offsets of queue entries, numbers of index entries, and positions in other files.
    """
    session: Session = ctx.obj
    _refuse_contradictions(kind, chooses_records=bool(topic or tags or key), hexadecimal=hexadecimal, follow=follow)
    limits = {"--from": from_text, "--to": to_text, "--since": since, "--until": until}
    wanted = _filter(session, kind, target, limits, topic, tags, key)
    messages = MessageRows(body, session.format, stored=stored_body, warn=session.warn)
    unshown = MessageRows(body, session.format, stored=stored_body, warn=lambda text: None)
    rows = EntryRows(session, messages, unshown, where, _limit(session, limit, follow))
    dump = _Dump(session, kind, wanted, target, with_fields=hexadecimal)
    if follow:
        return _follow(session, dump, rows, messages)
    return _result(kind, rows, messages, _table(rows, dump, with_fields=hexadecimal))


def _refuse_contradictions(kind: Kind, *, chooses_records: bool, hexadecimal: bool, follow: bool) -> None:
    if chooses_records and kind is not Kind.COMMITLOG:
        raise typer.BadParameter("--topic, --tags and --key choose records of the commit log")
    if hexadecimal and kind is Kind.STATE:
        raise typer.BadParameter("state files are text, and have no fields with places", param_hint="--hex")
    if follow and kind not in (Kind.COMMITLOG, Kind.CONSUMEQUEUE):
        raise typer.BadParameter("--follow works on a commit log and on consume queues")


def _result(kind: Kind, rows: EntryRows, messages: MessageRows, table: Table) -> Result:
    def facts() -> dict[str, int]:
        messages.warn_of_damage()
        return {"entry_count": rows.count, "fault_count": rows.fault_count}

    def verdict() -> str:
        faults = f", {count(rows.fault_count, 'place')} damaged" if rows.fault_count else ""
        return f"{count(rows.count, 'entry')} of {kind.value}{faults}"

    return Result("dump", facts, [table], lambda: FINDINGS if rows.fault_count else OK, verdict)


def _table(rows: EntryRows, dump: _Dump, *, with_fields: bool) -> Table:
    kind, entries = dump.kind, dump.entries()
    if with_fields:
        return Table("fields", rows.field_rows(entries), FIELD_COLUMNS)

    def columns() -> tuple[str, ...]:
        """Return columns for people, with the detail if there is damage."""
        return (*COLUMNS.get(kind, ()), *(("detail",) if rows.fault_count and kind in COLUMNS else ()))

    pieces = dump.pieces(rows)
    blocks = rows.blocks(pieces) if pieces is not None else None
    # Entries of several kinds have several names, and CSV has one heading.
    names = rows.names(dump.pieces(rows) or dump.entries()) if rows.is_csv else ()
    return Table("entries", rows.rows(entries), columns, blocks, names=names)


def _limit(session: Session, limit: int | None, follow: bool) -> int | None:
    if limit is not None:
        return limit or None
    return None if follow or session.format.is_for_programs else PEOPLE_LIMIT


def _filter(
    session: Session,
    kind: Kind,
    target: str | None,
    limits: Mapping[str, str | None],
    topic: str | None,
    tags: str | None,
    key: str | None,
) -> EntryFilter:
    from store.layout import parse_whole_number
    from store.reading import TagExpression

    queue_id = None
    if kind is Kind.COMMITLOG and target is not None and not Path(target).exists():
        of_target, queue_id = split_target(target)
        if topic not in (None, of_target):
            raise typer.BadParameter(f"{target} and --topic {topic} are two topics; leave out one of them")
        topic = topic or of_target
    bounds = {}
    for option, text in limits.items():
        name, counts = "from" if option in ("--from", "--since") else "to", option in ("--from", "--to")
        if text is None:
            continue
        if counts and (number := parse_whole_number(text)) is not None:
            bounds[f"{name}_number"] = number
        elif kind is Kind.COMMITLOG:
            bounds[f"{name}_ms"] = session.parse_time(text, option)
        else:
            raise typer.BadParameter("only records have a store time; give --from and --to a number", param_hint=option)
    expression = TagExpression(tags) if tags is not None else None
    return EntryFilter(**bounds, topic=topic, queue_id=queue_id, tags=expression, key=key)


class _Dump:
    """The entries of files of one kind that match the filter."""

    def __init__(
        self, session: Session, kind: Kind, wanted: EntryFilter, target: str | None, *, with_fields: bool
    ) -> None:
        self.kind, self.wanted = kind, wanted
        self._session, self._with_fields = session, with_fields
        # In the log a topic or queue is a filter, as records of all queues are in the same files.
        is_of_log = kind is Kind.COMMITLOG and target is not None and not Path(target).exists()
        self._target = None if is_of_log else target

    def folder(self) -> DumpedFolder | None:
        """Return the database with the entries; None if they are in files."""
        return folder_of(self._session, self.kind.value, self._target)

    def files(self, asked: Asked) -> list[DumpedFile]:
        return files_of(self._session, self.kind.value, self._target, asked)

    def asked(self, after: int | None = None) -> Asked:
        """Return the choice of entries: from --from on, or from `after`, the number of the next entry."""
        from store.verbs import Asked

        is_path = self._target is not None and Path(self._target).exists()
        topic, queue_id = split_target(None if is_path else self._target)
        settings = self._session.store.settings() if self.kind is Kind.INDEX else {}
        first, is_exact = (self.wanted.from_number or 0, False) if after is None else (after, True)
        return Asked(first, topic, queue_id, self.wanted.may_want, self._with_fields, is_exact, settings)

    def entries(self, after: int | None = None) -> Iterator[Entry]:
        """Yield the matching entries, file by file; files before --from are skipped.

        after  the number of the next entry, to begin there instead
        """
        asked = self.asked(after)
        folder = self.folder()
        if folder is not None:
            yield from filter(self.wanted.wants, folder.entries(asked))
            return
        for file in self.files(asked):
            for entry in file.entries(asked):
                if self.wanted.to_number is not None and entry.number > self.wanted.to_number:
                    break
                if self.wanted.wants(entry):
                    yield entry

    def pieces(self, rows: EntryRows) -> Iterator[Entry | EntryBlock] | None:
        """Return the matching entries in blocks; None if they are in files, or --where needs each row."""
        folder = self.folder()
        if folder is None or rows.is_filtered:
            return None
        from store.verbs import Entry

        found = folder.blocks(self.asked())
        singles = (one for one in found if not isinstance(one, Entry) or self.wanted.wants(one))
        return (one if isinstance(one, Entry) else self.wanted.part_of(one) for one in singles)


def _follow(session: Session, dump: _Dump, rows: EntryRows, messages: MessageRows) -> int:
    """Print entries as they are added, one a line, until a signal ends it."""
    if dump.kind is Kind.CONSUMEQUEUE and folder_of(session, dump.kind.value, None) is not None:
        raise typer.BadParameter("--follow reads files, and the consume queues are a RocksDB")
    if dump.kind is Kind.CONSUMEQUEUE and len({Path(one.file.path).parent for one in dump.files(dump.asked())}) > 1:
        raise typer.BadParameter("--follow follows one queue: name it TOPIC/QUEUE", param_hint="FILE")
    stdout, form = session.environment.stdout, session.format
    new = NewEntries(of_log=dump.kind is Kind.COMMITLOG)
    while True:
        for _, row in rows.chosen(new.settled(dump.entries(new.after))):
            shown = [show_value(name, row[name]) for name in COLUMNS[dump.kind] if row.get(name) is not None]
            stdout.write((json_for(stdout, row) if form.is_for_programs else "  ".join(shown)) + "\n")
            stdout.flush()
        messages.warn_of_undecoded()
        time.sleep(FOLLOW_EVERY_S)
