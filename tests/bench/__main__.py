"""How fast and how small the engine is: `python -m tests.bench [OPERATION ...]`.

Prints a table: each operation, what was measured, the limit that the machine gave in the same run, the ratio, the
target, met or not. README.md beside this file says what the figures mean and what bounds them.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import cold, five, forensics, limits, many, puts, queues, reads, sql, sync, walks
from tests.bench.context import Bench, Operation
from tests.bench.report import Row, table

OPERATIONS: dict[str, Operation] = {
    "processes": reads.processes,
    "kernels": reads.kernels,
    "put": puts.put,
    "sync": sync.sync,
    "bulk": puts.bulk,
    "scan": walks.scan,
    "get": reads.get,
    "recover": walks.recover,
    "states": walks.recover_states,
    "query": reads.query,
    "many": many.many,
    "queues": queues.queues,
    "cold": cold.cold,
    "forensics": forensics.forensics,
    "five": five.five,
    "five-checks": five.five_checks,
    "sql": sql.sql,
    "memory": puts.memory,
    "large": walks.recover_large,
}
SHARES = {"small": 0.1, "full": 1.0}


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    names = options.operations or [name for name in OPERATIONS if name != "large" or options.large]
    folder = Path(tempfile.mkdtemp(prefix="rmqctl-bench-", dir=options.dir))
    against = tuple(shlex.split(options.against or ""))
    bench = Bench(folder, options.share or SHARES[options.size], options.runs, options.large, against)
    rows: list[Row] = []
    try:
        for name in names:
            print(f"{time.strftime('%H:%M:%S')} {name} …", file=sys.stderr)
            rows += OPERATIONS[name](bench)
        machine = _machine(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(table(rows))
    print("\n" + ", ".join(f"{name} {value:.3g}" for name, value in machine.items()))
    if options.json:
        document = {"size": options.size, "limits": machine, "rows": [row.as_json() for row in rows]}
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


def _machine(folder: Path) -> dict[str, float]:
    """The machine's limits once more, for whoever compares machines."""
    return {
        "memory read GB/s": limits.read_bytes_per_s() / 1e9,
        "memcpy GB/s": limits.copy_bytes_per_s() / 1e9,
        "isal crc32 GB/s": limits.crc_bytes_per_s() / 1e9,
        "device write GB/s": limits.write_bytes_per_s(folder) / 1e9,
        "device append + fdatasync/s": limits.fdatasyncs_per_s(folder, 1124),
        "processors": os.cpu_count() or 0,
        "load average of the last minute": os.getloadavg()[0],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("operations", nargs="*", metavar="OPERATION", help=", ".join(OPERATIONS))
    parser.add_argument("--size", choices=SHARES, default="full", help="small: a tenth of the messages")
    parser.add_argument("--share", type=float, help="of the messages, in place of --size")
    parser.add_argument("--runs", type=int, default=3, help="best of so many (default 3)")
    parser.add_argument("--large", action="store_true", help="recover 10 GiB too, and read 5 GB cold")
    parser.add_argument("--dir", type=Path, help="folder on the device to measure; needs some GB")
    parser.add_argument(
        "--against",
        metavar="CMD",
        help="a reference with `bench` and `bench-recover`; put, sync and states measure it too, "
        "sync with sixteen threads where its `bench` has --threads",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
