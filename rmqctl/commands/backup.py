"""backup: copies of a store beside its live broker, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.backend import SPARK_ABOVE_GIB, Engine, EngineOption, Master, Remote, SparkAbove, choose_backend
from rmqctl.backing_up import HA_ADDRESS, follow_broker, restore_cluster, restored_facts, say_restored
from rmqctl.changing import DryRun, Yes
from rmqctl.context import Session
from rmqctl.exit_codes import DECLINED, FINDINGS, OK
from rmqctl.options import require_folder
from rmqctl.result import Result, Table
from rmqctl.show import count, show_bytes

if TYPE_CHECKING:
    from store import StoreError
    from store.formats import Manifest

EXAMPLES = {
    "backup create": (
        "rmqctl --store /data/store backup create /backup/broker-a",
        "rmqctl --store /data/store --bwlimit 50M --cold --nice backup create /backup/broker-a --compress",
        "rmqctl --store /data/store backup create s3://backups/broker-a",
        "rmqctl --store /data/store backup create /backup/broker-a --follow --broker broker-a:10912",
    ),
    "backup list": ("rmqctl backup list /backup/broker-a",),
    "backup verify": (
        "rmqctl backup verify /backup/broker-a",
        "rmqctl backup verify /backup/broker-a@20261124T021500.123",
    ),
    "backup diff": (
        "rmqctl backup diff /backup/broker-a",
        "rmqctl backup diff /backup/broker-a 20261123T020000.000 20261124T020000.000",
    ),
    "backup prune": ("rmqctl backup prune /backup/broker-a --keep-last 7 --keep-days 30 --dry-run",),
    "backup restore": (
        "rmqctl backup restore /backup/broker-a --to /data/restored",
        "rmqctl backup restore /backup/broker-a --to /data/restored --at 2026-11-24T02:00:00Z --bump 100000",
        "rmqctl backup restore /backup/broker-a --to /data/orders --topic Orders",
    ),
}
SEE_ALSO = {
    "backup create": ("backup restore", "backup verify", "replicate pull"),
    "backup list": ("backup verify", "backup prune"),
    "backup verify": ("backup list", "check"),
    "backup diff": ("backup list", "diff"),
    "backup prune": ("backup list",),
    "backup restore": ("backup create", "check", "config reset-offsets"),
}
FILES = {
    "backup create": ("commitlog", "consumequeue", "checkpoint", "config"),
    **{f"backup {word}": () for word in ("list", "verify", "diff", "prune", "restore")},
}

From = Annotated[str, typer.Argument(metavar="FROM", help="A folder of backups, or a URI; @ID after it chooses one.")]
NewStore = Annotated[
    Path,
    typer.Option("--to", metavar="NEWSTORE", callback=require_folder, help="The new store's folder, absent or empty."),
]
Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="A folder of backups, or a URI.")]


def run_create(
    ctx: typer.Context,
    to: Annotated[str, typer.Argument(metavar="TO", help="A folder of backups, new or not, or a URI.")],
    compress: Annotated[bool, typer.Option("--compress", help="Compress copied files by zstd.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep the backup up to date by replication, until Ctrl-C.")
    ] = False,
    broker: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="With --follow: the broker's HA port.", show_default=HA_ADDRESS),
    ] = None,
    controller: Annotated[
        bool, typer.Option("--controller", help="With --follow: the broker is a 5.x one in controller mode.")
    ] = False,
    every: Annotated[
        float | None,
        typer.Option(min=0.1, metavar="SECONDS", help="With --follow: update this often.", show_default="10"),
    ] = None,
) -> Result:
    """Back up a store beside its live broker.

    The store is only read. Tables are copied first, then the log up to its last whole record: no consumer offset is
    past the end of the copied log. Queues and index are left out, because restore builds them. Messages that the broker
    still holds in its transient pool (transientStorePoolEnable) are not in the backup. The log of a DLedger group is
    refused: its members are the copies.

    Segments of earlier backups are not read again. After a kill the next run continues after the finished files. Files
    in TO are plain bytes or zstd, and never change. backups/ID.json lists them with digests and is written last. TO can
    be a prefix in an object store, s3://BUCKET/PREFIX: then new segments are read twice, and no lock prevents a prune
    meanwhile.

    With --follow the command makes a backup, and then receives the log as a slave of --broker, through restarts of the
    broker. `backup list` shows in last_ms how far it has come. Received bytes are durable in TO/following within a
    second; if TO is an object store, in a scratch folder. Every few seconds, and at SIGTERM or Ctrl-C, they are added
    to the backup. Files that it replaces are deleted an hour later; in an object store a prune deletes them, because
    another writer may need them. After a day the next backup begins, so that prune can delete old ones. A SYNC_MASTER
    waits for this slave as for any other; a master with --controller never counts it.

    --bwlimit, --nice and --cold spare the broker. Every reading command takes a backup: --store backup:TO, or
    backup:TO@ID. Exit code 1 when a file could not be copied in full, when a segment is missing,
    or when the newest one is damaged; `backup verify` checks the whole log.
    """
    from store import __version__
    from store.files import Filesystem
    from store.verbs import CreateOptions, create_backup, open_target

    session: Session = ctx.obj
    for name, value in (("--broker", broker), ("--controller", controller or None), ("--every", every)):
        if value is not None and not follow:
            raise typer.BadParameter("it has no effect without --follow", param_hint=name)
    root, fs = session.store.reached
    folder = open_target(to, Filesystem(), compresses=compress)
    if session.options.uri is None and "://" not in folder.address:
        session.refuse_inside(root, Path(folder.address))
    options = CreateOptions(
        name=session.options.uri or "",
        version=__version__,
        settings=session.store.settings(),
        scratch=session.options.scratch,
        remark=session.note,
    )
    before = set(folder.stored_files())
    if follow:
        made = follow_broker(session, broker or HA_ADDRESS, folder, options, every, has_controller=controller)
    else:
        with session.progress("copying the log") as bar:
            options.progress = bar.update
            made = create_backup(root, folder, options, fs, session.environment.clock_ms)
    for note in made.notes:
        session.warn(note)
    return _created(made, before)


def _created(made: Manifest, before: set[str]) -> Result:
    """Describe a backup beside the stored files of earlier ones."""
    new = sum({one.stored: one.stored_size for one in made.files if one.stored not in before}.values())
    facts = {**_facts(made), "new_bytes": new}
    files = [_file_row(one) for one in made.files]
    verdict = f"backup {made.id}: {show_bytes(made.size)}, {show_bytes(new)} of it new; the log ends at {made.log_end}"
    tables = [Table("files", files, ("file", "size_bytes", "stored_as", "stored_bytes"))]
    return Result("backup create", facts, tables, FINDINGS if made.notes else OK, verdict)


def run_list(ctx: typer.Context, source: Folder) -> Result:
    """List the backups of a folder, oldest first.

    new_bytes counts bytes that no older backup has. Exit code 1 when a manifest is damaged.
    """
    from rmqctl.hints import describe
    from store.verbs import BackupFiles, added_bytes

    session: Session = ctx.obj
    files = BackupFiles(source)
    files.require()
    errors: list[StoreError] = []
    manifests = files.manifests(errors)
    for error in errors:
        session.warn(describe(error))
    added = added_bytes(manifests)
    rows = [{**_facts(one), "new_bytes": added[one.id]} for one in manifests]
    shown = ("backup_id", "store", "log_start", "log_end", "last_ms", "size_bytes", "new_bytes", "note_count")
    code = FINDINGS if errors else OK
    verdict = f"{count(len(rows), 'backup')}, {show_bytes(sum(added.values()))} stored"
    return Result("backup list", {}, [Table("backups", rows, shown)], code, verdict)


def run_verify(ctx: typer.Context, source: From) -> Result:
    """Verify the bytes of backups, and check their logs.

    Compares every file with its digest in the manifest. A file that several backups share is read once. Then runs
    `check` on the newest backup with a readable manifest, or on the one that @ID chooses, without restoring it. Exit
    code 1 when something is wrong. Findings of the check can be older than the backup.
    """
    from store.verbs import BackupFiles, bytes_to_verify, check_backup, manifest_faults, split_address, verify_files

    session: Session = ctx.obj
    folder, backup = split_address(source)
    files = BackupFiles(folder)
    errors: list[StoreError] = []
    manifests = [files.find(backup)] if backup is not None else files.manifests(errors)
    # Without a readable manifest this raises.
    checked = manifests[-1] if manifests else files.find(None)
    with session.progress("reading the backups", bytes_to_verify(manifests)) as bar:
        faults = list(verify_files(files, manifests, bar.update))
    with session.progress("checking the log"):
        findings = [] if faults else check_backup(files, checked)
    if faults:
        session.note("note: the log is not checked, as files are damaged")
        session.note(
            "note: `rmqctl backup create` copies a missing file again if the store has it; delete a damaged one first, "
            "as it is not read"
        )
    all_faults = (*manifest_faults(errors), *faults)
    rows = [{"backup_id": one.backup_id, "file": one.file, "reason": one.fault} for one in all_faults]
    found = [
        {"kind": one.kind, "file": one.file, "offset": one.offset, "count": one.count, "detail": one.detail}
        for one in findings
    ]
    facts = {
        "checked_backup": checked.id,
        "backup_count": len(manifests) + len(errors),
        "verified_bytes": bytes_to_verify(manifests),
        "fault_count": len(rows),
        "finding_count": len(findings),
    }
    wrong = bool(rows or findings)
    verdict = f"{count(len(manifests) + len(errors), 'backup')}: {count(len(rows), 'damaged file')}"
    verdict += "" if faults else f", {count(len(findings), 'finding')} in the log of {checked.id}"
    tables = [Table("damaged_files", rows), Table("findings", found)]
    return Result("backup verify", facts, tables, FINDINGS if wrong else OK, verdict)


def run_diff(
    ctx: typer.Context,
    source: Folder,
    before: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="The backup to compare with.", show_default="the newest but one"),
    ] = None,
    after: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The other backup.", show_default="the newest")
    ] = None,
) -> Result:
    """Compare two backups, file by file.

    Only the manifests are read. Exit code 1 when the backups differ.
    """
    from store.verbs import BackupFiles, differences

    files = BackupFiles(source)
    ids = files.ids()
    old, new = files.find(before or ids[-2 if len(ids) > 1 else -1]), files.find(after)
    rows = [
        {
            "file": one.path,
            "difference": one.difference,
            "size_before_bytes": one.size_before,
            "size_after_bytes": one.size_after,
        }
        for one in differences(old, new)
    ]
    facts = {"before": old.id, "after": new.id, "log_end_before": old.log_end, "log_end_after": new.log_end}
    verdict = f"{count(len(rows), 'file')} of {old.id} and {new.id} differ" if rows else "the backups are equal"
    return Result("backup diff", facts, [Table("differences", rows)], FINDINGS if rows else OK, verdict)


def run_prune(
    ctx: typer.Context,
    source: Folder,
    keep_last: Annotated[int | None, typer.Option(min=1, metavar="N", help="Keep the newest N backups.")] = None,
    keep_days: Annotated[
        float | None, typer.Option(min=0, metavar="DAYS", help="Keep backups of the last DAYS days.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Result:
    """Delete old backups, and files that no backup needs.

    A backup is kept when at least one rule keeps it. The newest backup is always kept, and the newest one that has all
    its files with their sizes (`backup verify` reads their bytes too). Without a rule, only files that no backup needs
    are deleted, such as those of an unfinished backup. Deleted backups cannot be brought back.
    """
    from store.files import Filesystem
    from store.verbs import open_target, plan_prune

    session: Session = ctx.obj
    if not (dry_run or yes or session.environment.can_ask):
        raise typer.BadParameter("this deletes backups: give --yes, or look first with --dry-run")
    folder = open_target(source, Filesystem())
    now_ms = session.environment.clock_ms()
    with folder.writing(takes=not dry_run):
        plan = plan_prune(folder, now_ms, keep_last=keep_last, keep_days=keep_days)
        for one in plan.incomplete:
            session.warn(f"backup {one} lacks files, or has shorter ones; `rmqctl backup verify` lists them")
        what = f"{count(len(plan.backups), 'backup')}, {count(len(plan.files), 'file')}, {show_bytes(plan.freed_bytes)}"
        rows = [{"backup_id": one, "verdict": "delete"} for one in plan.backups]
        rows += [{"backup_id": one, "verdict": "keep"} for one in plan.kept]
        files = [{"stored_as": path, "stored_bytes": size} for path, size in sorted(plan.files.items())]
        facts: dict[str, Any] = {"applied": False, "freed_bytes": plan.freed_bytes}
        tables = [Table("backups", sorted(rows, key=lambda row: row["backup_id"])), Table("files", files)]
        verdict = "nothing to delete" if plan.is_empty else f"would delete {what}"
        result = Result("backup prune", facts, tables, OK, verdict, is_plan=True)
        if plan.is_empty or dry_run:
            return result
        session.note(f"note: to delete: {what}; backups {', '.join(plan.backups) or 'none'}")
        if not yes and not session.ask(f"Delete {what} for good?"):
            result.verdict, result.exit_code = "nothing was deleted", DECLINED
            return result
        with session.interrupts.deferred():
            plan.apply(folder)
    result.facts, result.verdict = {**facts, "applied": True}, f"deleted {what}"
    return result


def run_restore(
    ctx: typer.Context,
    source: From,
    to: NewStore,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="End before the first record stored later.")] = None,
    log_offset: Annotated[int | None, typer.Option(min=0, metavar="N", help="End before this log offset.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Restore only this topic; repeatable.")
    ] = None,
    bump: Annotated[int, typer.Option(min=0, metavar="N", help="Skip N queue offsets at the end of each queue.")] = 0,
    engine: EngineOption = Engine.AUTO,
    master: Master = None,
    remote: Remote = None,
    spark_above: SparkAbove = SPARK_ABOVE_GIB,
) -> Result:
    """Restore a backup into a new store, whole or to a moment.

    A broker can start on the result: the log ends at the moment, queues and index are built, and the tables are in
    place. Consumer offsets are clamped to the queues. Delayed messages continue where the log shows their
    delivery. A queue whose messages have all expired keeps its next queue offset. Every byte is compared with its
    digest. Files get today's times, so the broker's retention begins today. Consume queues in RocksDB become files.

    Consumers may have read messages that came after the moment. With --bump, new messages get queue offsets that those
    messages did not have, if N is larger than their number. A placeholder (a record with the property RMQCTL_LOST)
    takes each skipped offset; groups that had read everything before continue after them. With --topic, records get new
    log offsets and so new broker message ids (offsetMsgId). Delayed messages that were not delivered yet are not in
    their topic, and are left out.

    On Spark, tasks write the segments and build the queues. A folder FROM and NEWSTORE must have the same paths on all
    executors.

    Without @ID the newest backup is restored. Exit code 1 when the log of the backup is damaged, and
    its queues end there, or when a segment is missing.
    """
    from store.files import Filesystem
    from store.verbs import BackupFiles, Moment, RestoreOptions, Selection, restore_backup, split_address

    session: Session = ctx.obj
    folder, backup = split_address(source)
    files = BackupFiles(folder)
    manifest = files.find(backup)
    if "://" not in folder:
        session.refuse_inside(Path(folder).expanduser(), to)
    moment = Moment(session.parse_time(at, "--at") if at is not None else None, log_offset)
    selection = Selection(moment, topic or (), bump)
    above = spark_above << 30
    backend = choose_backend(engine, manifest.size, master=master, remote=remote, spark_above_bytes=above)
    with (
        restore_cluster(session, backend, master, remote) as cluster,
        session.progress("restoring", manifest.size) as bar,
    ):
        made = restore_backup(
            files,
            manifest,
            to.expanduser().absolute(),
            Filesystem(),
            selection=selection,
            clock=session.environment.clock_ms,
            options=RestoreOptions(session.store.settings(), bar.update, cluster),
        )
    say_restored(session, manifest, moment, made)
    facts = {"backup_id": manifest.id, "target": str(to), **restored_facts(made)}
    rows = [{"file": one.file, "remark": one.remark} for one in made.tables]
    verdict = f"{count(made.record_count, 'record')} of {manifest.id} restored; the log ends at {made.log_end}"
    return Result("backup restore", facts, [Table("tables", rows)], FINDINGS if made.findings else OK, verdict)


def _facts(one: Manifest) -> dict[str, Any]:
    return {
        "backup_id": one.id,
        "store": one.store,
        "compat": one.line,
        "began_ms": one.began_ms,
        "ended_ms": one.ended_ms,
        "log_start": one.log_start,
        "log_end": one.log_end,
        "last_ms": one.last_store_timestamp_ms,
        "file_count": len(one.files),
        "size_bytes": one.size,
        "note_count": len(one.notes),
    }


def _file_row(one: Any) -> dict[str, Any]:
    return {
        "file": one.path,
        "size_bytes": one.size,
        "sha256": one.sha256,
        "stored_as": one.stored,
        "stored_bytes": one.stored_size,
    }
