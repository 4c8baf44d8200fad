"""fingerprint: digests of a store, for backups and CI."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.output import Format
from rmqctl.result import Result, Table
from rmqctl.show import count

if TYPE_CHECKING:
    from store.verbs import Digest

EXAMPLES = (
    "rmqctl --store /data/store --format json fingerprint > before.json",
    "rmqctl --store /backup/store fingerprint --verify before.json",
    "rmqctl --store /backup/00000000001073741824 fingerprint --verify before.json",
)
SEE_ALSO = ("diff", "check")
FILES = ("commitlog", "consumequeue", "index")
SHORT_DIGITS = 16


def run(
    ctx: typer.Context,
    verify: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Compare with a fingerprint in JSON; exit code 1 when it differs."),
    ] = None,
) -> Result:
    """Print SHA-256 digests of a store.

    One digest for each segment up to its valid end, each queue, each index file, and the store. Stale bytes,
    preallocated tails and names of index files are ignored, so a copy and a restored backup have the same fingerprint.
    Tables show the first digits of a digest; --wide and the other formats show all.

    With one segment file as --store, --verify compares only this segment.
    """
    session: Session = ctx.obj

    from store.verbs import digest_differences, fingerprint_files

    before = _read(verify) if verify is not None else None
    reader = session.store.open_reader(or_segment=True)
    if reader.exists("batchconsumequeue"):
        session.warn("batch consume queues have no digest, only their messages in the log")
    if any(reader.exists(f"{folder}/CURRENT") for folder in ("consumequeue", "consumequeue_rocksdb")):
        session.warn("consume queues in a RocksDB have no digest, only their messages in the log")
    with session.progress("reading the store", sum(file.size for file in reader.segments())) as bar:
        digests, whole = fingerprint_files(reader, bar.update)
    if before is not None and reader.is_segment:
        before = [one for one in before if one.key in {mine.key for mine in digests}]
    is_whole = session.options.wide or session.format is not Format.TABLE
    rows = [_row(one, is_whole=is_whole) for one in digests]
    parts = Table("parts", rows, ("kind", "name", "end", "sha256", "note"))
    if before is None:
        verdict = f"{count(len(digests), 'part')}, SHA-256 {_short(whole)}"
        return Result("fingerprint", {"sha256": whole}, [parts], verdict=verdict)
    different = digest_differences(before, digests)
    facts = {"sha256": whole, "verified": not different, "difference_count": len(different)}
    verb = "differs" if len(different) == 1 else "differ"
    verdict = f"{count(len(different), 'part')} {verb}" if different else "the store has the fingerprint of the file"
    tables = [Table("differences", different), parts]
    return Result("fingerprint", facts, tables, FINDINGS if different else OK, verdict)


def _row(one: Digest, *, is_whole: bool) -> dict[str, Any]:
    row = asdict(one)
    return row if is_whole else row | {"sha256": _short(one.sha256)}


def _short(digest: str) -> str:
    """Return the first digits of a digest."""
    return f"{digest[:SHORT_DIGITS]}…" if len(digest) > SHORT_DIGITS else digest


def _read(path: Path) -> list[Digest]:
    """Return the parts of an earlier fingerprint; raise a usage error for another file."""
    from store.verbs import Digest

    try:
        document: Any = json.loads(path.read_bytes())
        return [Digest(**part) for part in document["parts"]]
    except (IsADirectoryError, ValueError, KeyError, TypeError) as error:
        raise typer.BadParameter(
            f"{path} holds no fingerprint ({error}); make one with --format json fingerprint", param_hint="--verify"
        ) from None
