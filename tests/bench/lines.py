"""JSON lines in and out of a store, beside what orjson alone takes to parse them; Parquet and CSV beside a check.

    python -m tests.bench.lines --messages 1000000 --folder /data

Lines are those of `export`: bodies of 600 random bytes, five properties, 4 topics of 4 queues, 50 hosts. What one
message takes is taken off.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import orjson

_BORN_MS = 1_795_000_000_000


class Cost(NamedTuple):
    """Seconds of a process: on the clock, and of CPU."""

    wall: float
    cpu: float


def lines(count: int) -> Iterator[str]:
    """The same lines for the same count."""
    source = random.Random(5)
    for number in range(count):
        key = f"{source.getrandbits(128):032X}"
        names = {"UNIQ_KEY": key, "KEYS": f"order-{number}", "TAGS": "paid", "WAIT": "true", "CLUSTER": "Default"}
        row = {
            "topic": f"Topic{number % 4}", "queue_id": number // 4 % 4, "queue_offset": number // 16,
            "log_offset": number * 900, "size": 900, "msg_id": f"0A00010100002A9F{number * 900:016X}", "uniq_key": key,
            "keys": [f"order-{number}"], "tags": "paid", "flag": 0, "sys_flag": 0,
            "born_timestamp_ms": _BORN_MS + number, "born_host": f"10.0.0.{number % 50}:4711",
            "store_timestamp_ms": _BORN_MS + number + 1, "store_host": "10.0.1.1:10911", "reconsume_times": 0,
            "prepared_transaction_offset": 0, "body_crc": 0, "crc_ok": True, "compression": None,
            "body_state": "plain", "body": base64.b64encode(source.randbytes(600)).decode(),
            "body_encoding": "base64", "properties": names,
        }  # fmt: skip
        yield json.dumps(row) + "\n"


def run(*words: str, stdin: IO[bytes] | None = None, stdout: IO[bytes] | int = subprocess.DEVNULL) -> Cost:
    """What one run of rmqctl takes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "rmqctl", "--quiet", *words], check=True, stdin=stdin, stdout=stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.perf_counter() - began, cpu)


def to_pipe(*words: str) -> Cost:
    """The same with a pipe that another process empties."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as sink:
        assert sink.stdin is not None
        cost = run(*words, stdout=sink.stdin)
        sink.stdin.close()
    return cost


def measure(folder: Path, count: int) -> None:
    """Print a row for each direction."""
    given = {number: folder / f"{number}.jsonl" for number in (1, count)}
    for number, path in given.items():
        with path.open("w", encoding="utf-8") as stream:
            stream.writelines(lines(number))
    began = time.process_time()
    with given[count].open("rb") as texts:
        for text in texts:
            orjson.loads(text)
    parsed = time.process_time() - began
    print(f"{'orjson.loads of each line':44} {parsed / count * 1e6:27.2f} us of CPU each")
    for name, words in (
        ("put --input FILE", ("put", "--input", "{}")),
        ("put --as-stored --keep-times --input FILE", ("put", "--as-stored", "--keep-times", "--input", "{}")),
    ):
        stores = {number: folder / f"{name.count('-')}-{number}" for number in given}
        costs = [
            run("--store", str(stores[number]), *(word.format(given[number]) for word in words)) for number in given
        ]
        show(name, count, costs)
    for name, way, words in (
        ("export --to - --as jsonl, to a pipe", to_pipe, ("export", "--to", "-", "--as", "jsonl")),
        ("get Topic0 --format jsonl, to a pipe", to_pipe, ("-f", "jsonl", "get", "Topic0", "--limit", str(count))),
        ("export --as parquet", run, ("export", "--as", "parquet", "--to", str(folder / "parquet-{}"))),
        ("export --as csv", run, ("export", "--as", "csv", "--to", str(folder / "csv-{}"))),
        ("check", run, ("check",)),
    ):
        costs = [way("--store", str(stores[number]), *(word.format(number) for word in words)) for number in given]
        show(name, count // 4 if "get" in words else count, costs)


def show(name: str, count: int, costs: list[Cost]) -> None:
    """Print one row: of the second cost less the first one."""
    start, whole = costs
    cpu = (whole.cpu - start.cpu) / count * 1e6
    print(
        f"{name:44} {count / (whole.wall - start.wall) / 1000:7.0f} k/s, {whole.wall:6.2f} s, {cpu:6.2f} us of CPU each"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where lines and stores go; they are removed")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-lines-", dir=given.folder))
    try:
        measure(folder, given.messages)
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
