"""clean-expired: delete files that have expired by the broker's retention rules."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqctl.changing import ChangeOptions, changes_store, run_change
from rmqctl.context import Session
from rmqctl.options import parse_bytes
from rmqctl.result import Result
from rmqctl.staged import planning

EXAMPLES = (
    "rmqctl --store /data/store --broker-conf broker.conf clean-expired --dry-run",
    "rmqctl --store /data/store clean-expired --reserved-hours 24 --force --yes",
    "rmqctl --store /data/store clean-expired --disk-used-percent 88 --dry-run",
    "rmqctl --store /data/store clean-expired --free 20G --dry-run",
)
SEE_ALSO = ("usage", "lag", "undo", "quarantine purge")
FILES = ("commitlog", "consumequeue", "index", "lock", "config", ".rmqctl")


@changes_store
def run(
    ctx: typer.Context,
    consent: ChangeOptions,
    now: Annotated[str | None, typer.Option(metavar="TIME", help="Plan as if it were this time.")] = None,
    reserved_hours: Annotated[
        int | None,
        typer.Option(min=0, metavar="HOURS", help="Keep files this long.", show_default="fileReservedTime"),
    ] = None,
    disk_used_percent: Annotated[
        float | None, typer.Option(min=0, max=100, metavar="PERCENT", help="Plan as if the disk were this full.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Clean now, as the admin command does, at any hour.")] = False,
    passes: Annotated[int, typer.Option(min=1, metavar="N", help="Rounds of at most ten files each.")] = 1,
    free: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Free SIZE, such as 20G: delete the oldest segments, at any age and hour."),
    ] = None,
) -> Result:
    """Delete expired files by the broker's rules.

    A file is deleted when it is older than the retention and either the hour is in deleteWhen or the disk is too full.
    On a disk that is nearly full the age does not count. A pass deletes at most ten files and never the last one. The
    plan lists each file with the rule that keeps or deletes it, and the consumer groups that have not read it.

    --free deletes at least SIZE if there is so much. It keeps the last segment and, with --reserved-hours, all segments
    that are younger.
    """
    session: Session = ctx.obj
    from store import plan_cleaning

    now_ms = session.parse_time(now, "--now") if now is not None else session.environment.clock_ms()
    with planning(session, consent, "clean") as opened, session.progress("reading the log") as bar:
        change = plan_cleaning(
            opened,
            now_ms=now_ms,
            reserved_hours=reserved_hours,
            disk_used_percent=disk_used_percent,
            force=force,
            passes=passes,
            free_bytes=_parse_size(free),
            progress=bar.update,
        )
        result = run_change(session, "clean-expired", change, consent)
    if result.read_facts()["applied"] and consent.keep:
        session.note("the space is free once `rmqctl quarantine purge` has run")
    return result


def _parse_size(text: str | None) -> int | None:
    if text is None:
        return None
    size = parse_bytes(text)
    if size is None:
        raise typer.BadParameter(f"{text!r} is no number of bytes above 0; give one such as 20G", param_hint="--free")
    return size
