"""fingerprint: digests of a store, for backups and CI."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.result import Result, Table
from rmqctl.show import count

if TYPE_CHECKING:
    from store.forensics import Digest

EXAMPLES = (
    "rmqctl --store /data/store --format json fingerprint > before.json",
    "rmqctl --store /backup/store fingerprint --verify before.json",
)
SEE_ALSO = ("diff", "check")


def run(
    ctx: typer.Context,
    verify: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Compare with a fingerprint in JSON; exit 1 where it differs.")
    ] = None,
) -> Result:
    """Print SHA-256 digests of a store.

    One per segment up to its valid end, per queue, per index file, and one for the store. Stale bytes, preallocated
    tails and the names of index files don't count, so a copy and a restored backup have the same fingerprint.
    """
    session: Session = ctx.obj

    from store.forensics import digest_differences, fingerprint_files

    before = _read(verify) if verify is not None else None
    reader = session.open_reader()
    if reader.exists("batchconsumequeue"):
        session.warn("batch consume queues are not looked at, only their messages in the log")
    if reader.exists("consumequeue/CURRENT"):
        session.warn("the RocksDB with the consume queues is not looked at, only its messages in the log")
    with session.progress("reading the store", sum(file.size for file in reader.segments())) as bar:
        digests, whole = fingerprint_files(reader, bar.update)
    parts = Table("parts", [asdict(one) for one in digests], ("kind", "name", "end", "sha256", "note"))
    if before is None:
        verdict = f"the fingerprint of {count(len(digests), 'part')} is {whole}"
        return Result("fingerprint", {"sha256": whole}, [parts], verdict=verdict)
    rows = digest_differences(before, digests)
    facts = {"sha256": whole, "verified": not rows, "difference_count": len(rows)}
    verdict = f"{len(rows)} parts differ" if rows else "the store has the fingerprint of the file"
    return Result("fingerprint", facts, [Table("differences", rows), parts], FINDINGS if rows else OK, verdict)


def _read(path: Path) -> list[Digest]:
    """The parts of an earlier fingerprint; a usage error for a file that holds none."""
    from store.forensics import Digest

    try:
        document: Any = json.loads(path.read_text("utf-8"))
        return [Digest(**part) for part in document["parts"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise typer.BadParameter(
            f"{path} holds no fingerprint ({reason}); make one with --format json fingerprint", param_hint="--verify"
        ) from None
