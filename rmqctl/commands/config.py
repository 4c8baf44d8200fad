"""config: the settings of a store's broker, and the broker's tables under config/."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.changing import ChangeOptions, changes_store, run_change
from rmqctl.completion import complete_group, complete_topic
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.hints import hint_for
from rmqctl.options import DEFAULT_STORE, Compat
from rmqctl.programs import to_json
from rmqctl.result import Result, Table
from rmqctl.settings import values_and_sources
from rmqctl.show import count
from rmqctl.staged import locked, planning

if TYPE_CHECKING:
    from store.config import Setting
    from store.structures.tables import ConfigFile
    from store.verbs import ConfigReview

LEAST_TIME_MS = 10**12
"""From this number on, --to is a time in milliseconds (September 2001), below it a queue offset."""
EXAMPLES = {
    "config check": (
        "rmqctl --store /data/store config check",
        "rmqctl --store /data/store --format json config check",
    ),
    "config show": ("rmqctl --store /data/store config show consumerOffset", "rmqctl --store /data/store config show"),
    "rebuild topics": (
        "rmqctl --store /data/store rebuild topics --dry-run",
        "rmqctl --store /data/store rebuild topics --yes",
    ),
    "config reset-offsets": (
        "rmqctl --store /data/store config reset-offsets billing --topic Orders --to -2h --dry-run",
        "rmqctl --store /data/store config reset-offsets billing --topic Orders --to first --yes",
    ),
    "config settings": (
        "rmqctl --store /data/store config settings",
        "rmqctl --store /data/store --broker-conf broker.conf config settings flush --effective",
    ),
}
FILES = ("config", "consumequeue")
SEE_ALSO = ("check", "lag", "info", "undo")
FILE_COLUMNS = ("file", "load", "main_state", "backup_state", "temporary_state", "reason")
ENTRY_COLUMNS = ("file", "section", "name", "value")
SHOWN = ("name", "value", "source", "effect")


def run_settings(
    ctx: typer.Context,
    pattern: Annotated[str, typer.Argument(metavar="[TEXT]", help="Only names that contain this text.")] = "",
    effective: Annotated[bool, typer.Option("--effective", help="Only settings with an effect.")] = False,
) -> Result:
    """List a broker's settings and where they come from.

    Each setting has its value for this store and its effect in rmqctl. Sources: set (--set), file (--broker-conf),
    inferred (from the store's files), default. Settings without an effect are marked. An unknown name in --set or
    --broker-conf is refused.
    """
    from store.config import all_settings

    session: Session = ctx.obj
    if session.options.store != Path(DEFAULT_STORE):
        session.store.open_reached()
    values = values_and_sources(session)
    shown = (lambda value: value) if session.format.is_for_programs else _as_written
    rows = [
        _row(setting, values, shown)
        for setting in all_settings().values()
        if pattern.lower() in setting.name.lower() and (setting.effect or not effective)
    ]
    given = sum(row["source"] in ("set", "file") for row in rows)
    inferred = sum(row["source"] == "inferred" for row in rows)
    verdict = f"{count(len(rows), 'setting')}: {given} given, {inferred} read off the files, the others are defaults"
    return Result("config settings", {}, [Table("settings", rows, SHOWN)], verdict=verdict)


def _as_written(value: Any) -> Any:
    """Return the value in the form of --set."""
    return str(value).lower() if isinstance(value, bool) else value


def _row(setting: Setting, values: Mapping[str, tuple[Any, str]], shown: Callable[[Any], Any]) -> dict[str, Any]:
    value, source = values.get(setting.name, (setting.default, "default"))
    return {
        "name": setting.name,
        "value": shown(value),
        "source": source,
        "default": shown(setting.default),
        "type": setting.type,
        "effect": setting.effect or "; ".join(filter(None, ("none", setting.instead))),
        "owner": setting.owner,
    }


# The broker's tables under config/.


def run_check(ctx: typer.Context) -> Result:
    """Show how a broker would load its tables.

    For each table under config/, with its .bak and .tmp: the file that a broker would load, and entries that it would
    lose silently. Also consumer offsets outside their queues, and topics of the store without an entry. Each finding
    has its remedy. Exit code 1 when something was found.
    """
    session: Session = ctx.obj
    review = _review(session)
    rows = [
        {"kind": one.kind, "file": one.file, "detail": one.detail, "remedy": hint_for(one.code, one.subject)}
        for one in review.findings
    ]
    files = [_file_row(file) for file in review.files]
    verdict = f"{_loaded(len(files), sum(file.load.name == 'MAIN' for file in review.files))}; "
    verdict += count(len(rows), "finding")
    tables = [Table("findings", rows), Table("files", files, FILE_COLUMNS)]
    return Result("config check", {"finding_count": len(rows)}, tables, FINDINGS if rows else OK, verdict)


def _loaded(tables: int, from_their_file: int) -> str:
    if not tables:
        return "no table is in config/"
    others = tables - from_their_file
    return f"{count(tables, 'table')}, {f'{others} of them not' if others else 'each'} loaded from its own file"


def run_show(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="[TABLE]", help="Only tables whose name contains it.")] = "",
    pattern: Annotated[str, typer.Option("--entry", metavar="TEXT", help="Only entries whose name contains it.")] = "",
) -> Result:
    """Show the broker's tables as it would load them.

    Every entry of topics.json, subscriptionGroup.json, consumerOffset.json, delayOffset.json, consumerFilter.json and
    the other tables under config/, from the copy that a broker would load.
    """
    from store.opened import make_layout
    from store.structures.tables import read_config_files
    from store.verbs import table_entries

    session: Session = ctx.obj
    root, fs = session.store.reached
    session.store.open_reached()  # Raises NotAStore for a folder without a broker's files.
    files = read_config_files(make_layout(root, session.store.settings(), fs).config, fs)
    rows = [
        {**asdict(entry), "value": to_json(entry.value)}
        for entry in table_entries([file for file in files if name.lower() in file.name.lower()])
        if pattern in entry.name
    ]
    verdict = f"{count(len(rows), 'entry').replace('entrys', 'entries')} of {count(len(files), 'table')}"
    return Result("config show", {"entry_count": len(rows)}, [Table("entries", rows, ENTRY_COLUMNS)], OK, verdict)


@changes_store
def run_rebuild_topics(
    ctx: typer.Context,
    consent: ChangeOptions,
    compat: Annotated[
        Compat | None,
        typer.Option(help="The broker version to write for.", show_default="the version that wrote the store"),
    ] = None,
) -> Result:
    """Rebuild topics.json from the log and the queues.

    Topics in the newest readable copy keep their entries, with at least as many queues as exist. Topics that only log
    or queues have get a broker's defaults. The old file goes to quarantine; undo restores it.
    """
    session: Session = ctx.obj
    from store.broker_line import broker_line
    from store.opened import detect_line, staging
    from store.verbs import plan_topics

    with locked(session, take=not consent.dry_run) as (layout, fs):
        line = broker_line(compat.value) if compat is not None else detect_line(layout, fs)
        reader = session.store.open_reader(as_it_is=True)
        with (
            staging(layout, fs, "topics", dry_run=consent.dry_run) as folder,
            session.progress("reading the log", reader.log_size()) as bar,
        ):
            now_ms = session.environment.clock_ms()
            change = plan_topics(layout, reader, line, fs, staging=folder, now_ms=now_ms, on_progress=bar.update)
            session.store.warn_of_damage([reader])
            return run_change(session, "rebuild topics", change, consent)


@changes_store
def run_reset_offsets(
    ctx: typer.Context,
    consent: ChangeOptions,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Consumer group.", autocompletion=complete_group)],
    topic: Annotated[str, typer.Option(metavar="TOPIC", help="Topic.", autocompletion=complete_topic)],
    to: Annotated[str, typer.Option(metavar="WHERE", help="first, last, a store time, or a queue offset.")],
    queue: Annotated[int | None, typer.Option(min=0, metavar="N", help="Only this queue.", show_default="all")] = None,
) -> Result:
    """Set where a consumer group continues.

    Writes consumerOffset.json, which a broker reads at its start. An offset is kept within its queue. A number below
    10^12 is a queue offset, a larger one a store time in milliseconds.
    """
    session: Session = ctx.obj
    from store.verbs import OffsetTarget, plan_offset_reset

    if to in ("first", "last"):
        target = OffsetTarget(to)
    elif to.isascii() and to.isdigit() and int(to) < LEAST_TIME_MS:
        target = OffsetTarget(offset=int(to))
    else:
        try:
            target = OffsetTarget(time_ms=session.parse_time(to, "--to"))
        except typer.BadParameter as error:
            raise typer.BadParameter(f"{error.message}; or first, last, or a queue offset", param_hint="--to") from None
    with planning(session, consent, "delay") as opened:
        change = plan_offset_reset(opened, group, topic, queue, target, session.environment.clock_ms())
        return run_change(session, "config reset-offsets", change, consent)


def _review(session: Session) -> ConfigReview:
    from store.opened import detect_line, make_layout
    from store.verbs import review_tables

    root, fs = session.store.reached
    layout = make_layout(root, session.store.settings(), fs)
    line, recovered = detect_line(layout, fs), lambda: session.store.open().queues()
    return review_tables(layout, session.store.open_reached(), line, fs, recovered)


def _file_row(file: ConfigFile) -> dict[str, Any]:
    return {
        "file": file.name,
        "load": file.load.value,
        "loaded_from": file.loaded.path.name if file.loaded is not None else None,
        "main_state": file.main.state.value,
        "backup_state": file.backup.state.value,
        "temporary_state": file.temporary.state.value,
        "reason": file.main.reason or None,
        "mtime_ms": file.main.mtime_ms,
    }
