"""bundle: a store without the bodies of its messages, for an expert."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.changing import DryRun, Yes
from rmqctl.commands.doctor import examine_store
from rmqctl.context import Session
from rmqctl.exit_codes import DECLINED, FINDINGS, OK
from rmqctl.options import names_uri
from rmqctl.result import Result, Table
from rmqctl.show import count, show_bytes

if TYPE_CHECKING:
    from store.files import StoreReader
    from store.verbs import BundlePlan, Examination, WrittenBundle

EXAMPLES = (
    "rmqctl --store /data/store bundle /tmp/case.tar.zst --dry-run",
    "rmqctl --store /data/store bundle /tmp/case.tar.zst",
    "rmqctl --store /tmp/case.tar.zst doctor",
)
EXIT_CODES = {1: "A file was not readable in full, or `doctor` has other findings in the bundle."}
FILES = ("commitlog", "consumequeue", "index", "checkpoint", "config")
SEE_ALSO = ("doctor", "report", "backup create", "salvage")
_NAMELESS = re.compile(r"-?\d+|true|false|[\d\smhd;]+|(A?SYNC_)?(FLUSH|MASTER)|SLAVE|default\w*")
_ABSENT, _PAST_ALL = "left out", 1 << 63
_SCRATCH = re.compile(r"[^\s:]*/rmqctl-scratch-\w+")


def run(
    ctx: typer.Context,
    to: Annotated[Path, typer.Argument(metavar="TO", help="The new file; its name ends in .tar.zst.")],
    salt: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The salt of the digests.", show_default="a new one")
    ] = None,
    hide_properties: Annotated[
        bool, typer.Option("--hide-properties", help="Replace keys, tags and a user's properties too.")
    ] = False,
    hide_names: Annotated[
        bool, typer.Option("--hide-names", help="Replace names of topics, groups and hosts, and properties too.")
    ] = False,
    short: Annotated[
        bool, typer.Option("--short", help="Leave out old segments of the log, before the first finding.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> Result:
    """Bundle a store without message bodies, for an expert.

    The bundle opens as a store: `rmqctl --store TO doctor` has the same findings as in the store, and every reading
    command accepts it. Files keep their names, lengths and times. Queues, index, checkpoint and tables are whole, so
    topics, groups, keys, tags and properties can be read. Each body is replaced by its digest, repeated to the body's
    length. The CRC matches the digits, or is wrong if it was wrong before. In damage and past the log's end, bytes
    outside of fields are question marks. Unknown files, and files in quarantine, are zeros of the same length.

    With --hide-properties, values of properties are replaced too, except those that brokers and clients set themselves.
    Names of properties, topics and groups stay. Keys and tags get a text with the same length and hash code, because
    index and queues hold hash codes: short ones can be guessed, and a single character stays. A RocksDB with keys
    (rocksdbstore of 5.4 and later) is left out.

    --hide-names includes --hide-properties. It also replaces names of topics, groups, cluster and broker in records,
    folders, tables and bundle.json; addresses of hosts in records and message ids; the client's part of UNIQ_KEY; and
    settings that may name a host. A name keeps its length, its hash code, and a prefix such as %RETRY%. Names of the
    brokers' own topics stay, and names of digits alone. A name without such a replacement is listed, and stays. Ports,
    times, queue ids, attributes of topics and filter expressions in tables stay. Findings have no texts in
    bundle.json. Each RocksDB is left out. The option is refused with tiered storage.

    With --short, segments before the one that precedes the first finding in the log are left out, as if they had
    expired; without such a finding, all but two. Queues and index stay whole. Without a plain log nothing is left out.
    A finding in queues or index may need a segment that is left out: then the command says so.

    Equal bodies have equal digests. The salt prevents a comparison with digests of guessed bodies. Give the same salt
    to compare two bundles. bundle.json in the archive has the given settings, the findings, digests of segments, queues
    and index, and the content of each file. `tar --zstd -x` unpacks a bundle.

    The files are listed before anything is written; --dry-run only lists them. After writing, `doctor` examines store
    and bundle, and their findings are compared. The store is only read. Bytes that the device cannot read are reported,
    and are unreadable in the bundle too. Each command that reads a bundle unpacks it into the scratch folder.
    """
    session: Session = ctx.obj
    _check_target(session, to)
    if not (dry_run or yes or session.environment.can_ask):
        raise typer.BadParameter("this writes the listed files into a bundle: give --yes, or look first with --dry-run")
    hides = {"hides_properties": hide_properties or hide_names, "hides_names": hide_names}
    found = examine_store(session, None) if short else None
    plan, reader = _plan(session, found, **hides)
    rows: list[dict[str, Any]] = [
        {"file": one.path, "content": one.content, "size_bytes": one.size} for one in plan.files
    ]
    what = f"{count(sum(one.content != _ABSENT for one in plan.files), 'file')} of {show_bytes(plan.size)}"
    facts: dict[str, Any] = {"applied": False, "target": str(to), "size_bytes": plan.size}
    result = Result("bundle", facts, [Table("files", rows)], OK, f"would bundle {what}", is_plan=True)
    if dry_run:
        return result
    if not yes:
        for row in rows:
            session.note(f"{row['content']}: {row['file']}, {show_bytes(row['size_bytes'])}")
        if not session.ask(f"Bundle {what} into {to}?"):
            result.verdict, result.exit_code = "nothing was written", DECLINED
            return result
    written = _write(session, to, (plan, reader, found := found or examine_store(session, None)), salt, **hides)
    has_same = _findings(found, session.store.reached[0], hide_names) == _findings_in(session, to, hide_names)
    notes = [*_notes(session, written), *([] if has_same else _other_findings(session, plan, found))]
    for note in (*plan.left_out, *notes):
        session.warn(note)
    finding_count = len(found.diagnoses)
    result.facts = {**facts, "applied": True, "stored_bytes": written.size, "finding_count": finding_count}
    result.facts |= {"same_findings": has_same}
    result.exit_code = FINDINGS if notes else OK
    result.verdict = f"bundled {what} into {show_bytes(written.size)}, with {count(finding_count, 'finding')}"
    return result


def _other_findings(session: Session, plan: BundlePlan, found: Examination) -> list[str]:
    """Return a warning of different findings; none if the store's holder explains them, and a note does."""
    if found.info.holder is not None:
        who = f"{found.info.holder.describe()} holds the store"
        session.note(f"note: {who}: doctor simulates a start in the bundle only, and can find more there")
        return []
    is_whole = all(one.content != _ABSENT for one in plan.files)
    reason = "did it change meanwhile?" if is_whole else "they need files that are left out"
    return [f"doctor has other findings in the bundle than in the store: {reason}"]


def _notes(session: Session, written: WrittenBundle) -> Iterator[str]:
    """Yield the bytes that were not readable."""
    for name in written.kept_names:
        session.note(f"note: the name {name} stays: no other one has its length and hash code")
    for file, ranges in sorted(written.unreadable.items()):
        yield from (f"{file}: can't read bytes {start} to {stop}" for start, stop in ranges)


def _check_target(session: Session, to: Path) -> None:
    from store.layout import BUNDLE

    if names_uri(to):
        raise typer.BadParameter("a bundle is written into a file of this machine", param_hint="TO")
    if not to.name.endswith(BUNDLE):
        raise typer.BadParameter(f"the name of a bundle ends in {BUNDLE}", param_hint="TO")
    if session.options.uri is None:
        session.refuse_inside(session.store.root, to)


def _plan(session: Session, found: Examination | None, **hides: bool) -> tuple[BundlePlan, StoreReader]:
    """List the files of the store; with `found`, without segments before the first of them."""
    from store.files import StoreReader
    from store.opened import make_layout
    from store.verbs import plan_bundle

    root, fs = session.store.reached
    layout = make_layout(root, session.store.settings(), fs)
    reader = StoreReader.of(layout, fs)
    reader.check_has_broker_files()
    plan = plan_bundle(layout, reader, fs, **hides)
    if found is not None:
        places = [one.offset for one in found.findings if Path(one.file).parent in layout.commitlogs]
        plan.leave_out_before(min([*places, *(one.log_end for one in found.starts)], default=_PAST_ALL))
    return plan, reader


def _write(
    session: Session,
    to: Path,
    bundled: tuple[BundlePlan, StoreReader, Examination],
    salt: str | None,
    **hides: bool,
) -> WrittenBundle:
    from store import __version__
    from store.files import Filesystem
    from store.verbs import BundleOptions, write_bundle

    with session.progress("writing the bundle") as bar:
        options = BundleOptions(
            version=__version__,
            made_ms=session.environment.clock_ms(),
            salt=(salt or secrets.token_hex(16)).encode()[:64],
            settings=_settings(session, hide_names=hides["hides_names"]),
            progress=bar.update,
            **hides,
        )
        return write_bundle(*bundled, to.expanduser().absolute(), options, Filesystem())


def _settings(session: Session, *, hide_names: bool) -> dict[str, str]:
    """Return the given settings; with `hide_names` without those that may name a host, broker or cluster."""
    given = session.store.settings_for_bundle().items()
    return {name: value for name, value in given if not hide_names or _NAMELESS.fullmatch(value)}


def _findings_in(session: Session, bundle: Path, hide_names: bool) -> list[tuple[object, ...]]:
    """Return the findings of an examination of the bundle."""
    from store.opened import make_layout, reach_store
    from store.verbs import examine

    root, fs = reach_store(bundle, scratch=session.options.scratch)
    settings = session.store.settings_for_bundle()
    with session.progress("examining the bundle") as bar:
        layout = make_layout(root, settings, fs)
        found = examine(layout, settings, session.environment.clock_ms, fs=fs, on_progress=bar.update)
    return _findings(found, root, hide_names)


def _findings(found: Examination, root: Path, hide_names: bool) -> list[tuple[object, ...]]:
    """Return the findings without the store's folder, scratch folders, and texts with hidden names."""
    return [
        (
            *(one.rank, one.area, one.what, one.count, one.code),
            "" if hide_names else _SCRATCH.sub("", one.detail.replace(str(root), "")),
        )
        for one in found.diagnoses
    ]
