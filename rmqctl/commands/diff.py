"""diff: the differences of two stores."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.result import Result, Table
from rmqctl.show import count

if TYPE_CHECKING:
    from store.verbs import StoreDiff

EXAMPLES = (
    "rmqctl diff /data/master/store /data/slave/store",
    "rmqctl diff --deep /data/store /backup/store",
)
SEE_ALSO = ("fingerprint", "check")
FILES = ("commitlog", "consumequeue", "index")


def run(
    ctx: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="A store's folder or URI.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The other store.")],
    deep: Annotated[bool, typer.Option("--deep", help="Compare every byte of the records.")] = False,
) -> Result:
    """Compare two stores, such as master and slave.

    Finds the first record that differs and the reason, parts of the log that only one store has, and queues with
    different offsets or entries. Stale bytes and preallocated tails are ignored. Exit code 1 when something differs.
    """
    session: Session = ctx.obj

    from store.files import StoreReader
    from store.verbs import diff_stores

    readers = StoreReader(a), StoreReader(b)
    for reader in readers:
        reader.check_is_store()
    with session.progress("comparing"):
        found = diff_stores(*readers, deep=deep)
    ranges = [
        {"store": name, "start": one.start, "end": one.end, "size_bytes": one.end - one.start}
        for name, only in (("A", found.only_a), ("B", found.only_b))
        for one in only
    ]
    facts = {
        "equal": found.is_equal,
        "same_records": found.same_records,
        "differing_records": found.differing_records,
        "first_difference": asdict(found.first) if found.first else None,
    }
    tables = [Table("only_in_one", ranges), Table("queues", found.queues)]
    same = "the stores hold the same" if deep else "the stores hold the same, bodies not compared (--deep does)"
    verdict = same if found.is_equal else _verdict(found)
    return Result("diff", facts, tables, OK if found.is_equal else FINDINGS, verdict)


def _verdict(found: StoreDiff) -> str:
    """Return the differences in one line."""
    ranges = len(found.only_a) + len(found.only_b)
    return (
        f"different: {count(found.differing_records, 'record')}, {count(len(found.queues), 'queue')}; "
        f"{count(ranges, 'range')} of the log in one store only"
    )
