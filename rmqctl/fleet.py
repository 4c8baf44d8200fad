"""check --fleet: the findings of check in many or large stores, in this process or on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rmqctl.backend import Engine
from rmqctl.commands import FLEET_DOCUMENT
from rmqctl.context import Session
from rmqctl.exit_codes import FINDINGS, OK
from rmqctl.result import Result, Table
from rmqctl.show import count


def check_fleet(
    session: Session,
    stores: Sequence[str] | None,
    sample_percent: float,
    columns: Sequence[str],
    spark: tuple[Engine, str | None, str | None, int],
) -> Result:
    """Check each of the stores, and return all findings as one result.

    spark  values of --engine, --master, --remote and --spark-above
    """
    from rmqctl.querying import open_tables
    from store import CheckOptions

    rows: list[dict[str, Any]] = []
    with open_tables(session, stores, *spark, any_size=True) as tables:
        for store in tables.stores:
            found = tables.check(store, CheckOptions(sample_percent=sample_percent, settings=session.store.settings()))
            rows += [{name: getattr(finding, name) for name in columns} for finding in found]
    kinds = sorted({row["kind"] for row in rows})
    counts = [{"kind": kind, "count": sum(r["count"] for r in rows if r["kind"] == kind)} for kind in kinds]
    verdict = count(len(rows), "finding") if rows else "nothing wrong"
    shown = [Table("findings", rows, columns), Table("kinds", counts, ("kind", "count"))]
    return Result(FLEET_DOCUMENT, {"finding_count": len(rows)}, shown, FINDINGS if rows else OK, verdict)
