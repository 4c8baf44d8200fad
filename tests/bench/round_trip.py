"""export | put of messages of random bytes: every message must come back, which a digest of both stores shows.

    python -m tests.bench.round_trip --messages 1000000 --folder /data

Bodies, properties, keys and topics hold what a store takes, to its limits: bytes that are no text, names given twice,
empty values, topics of 127 characters, bodies of nothing and of several KiB, all flags, IPv6 hosts.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from store import Host, Message, export_arrow, open_store
from store.formats.message import decode_record
from store.formats.properties import MAX_PROPERTIES_SIZE
from store.formats.properties import encode_properties as encode

LARGE_EVERY = 10_000
"""So many messages have one with properties at their limit and a large body."""

TOPICS = ("Orders", "x" * 127, "a-b_c%|9", "RMQ_SYS_TRANS_OP_HALF_TOPIC")
HOSTS = (Host.parse("10.0.0.1:1"), Host.parse("255.255.255.255:65535"), Host.parse("[::1]:0"))


def messages(count: int, seed: int) -> Iterator[Message]:
    """The same messages for the same seed."""
    source = random.Random(seed)
    for number in range(count):
        is_large = number % LARGE_EVERY == 0
        yield Message(
            source.choice(TOPICS),
            source.randbytes(source.choice((0, 1, 60, 300, 3_000)) if not is_large else 200_000),
            source.randrange(8),
            _properties(source, number, is_large),
            flag=source.randrange(-(1 << 31), 1 << 31),
            sys_flag=source.choice((0, 0, 0, 2, 8)),
            born_timestamp_ms=source.randrange(1 << 42),
            born_host=source.choice(HOSTS),
            store_host=source.choice(HOSTS),
            reconsume_times=source.randrange(1 << 31),
        )


def _properties(source: random.Random, number: int, is_large: bool) -> bytes:
    if is_large:
        return source.randbytes(MAX_PROPERTIES_SIZE).replace(b"\x01DELAY\x01", b"").replace(b"DELAY", b"delay")
    text = encode({"KEYS": f"key-{number} \u20ac{number}", "UNIQ_KEY": f"{number:032X}", "TAGS": "T", "": "", "e": ""})
    return text + source.choice((b"", b"\x02\xff\xfe\x01\x80", b"\x02a\x01b\x02a\x01c", source.randbytes(40)))


def digest(store: Path) -> tuple[int, str]:
    """The number of messages, and a digest of the set of what a producer says of each."""
    count, total = 0, 0
    for batch in export_arrow(store, columns=["log_offset"]):
        count += batch.num_rows
    for batch in _records(store):
        for record in batch:
            message = decode_record(record)
            said = (
                message.topic, message.queue_id, message.body, message.property_text.rstrip(b"\x02"), message.flag,
                message.sys_flag, message.born_timestamp_ms, str(message.born_host), str(message.store_host),
                message.reconsume_times, message.prepared_transaction_offset,
            )  # fmt: skip
            total += int.from_bytes(hashlib.blake2b(repr(said).encode(), digest_size=16).digest(), "big")
    return count, f"{total % (1 << 128):032x}"


def _records(store: Path) -> Iterator[list[bytes]]:
    from store.query.embedded.engine import MESSAGES_WITH_RECORDS, open_engine

    with open_engine([str(store)]) as engine:
        for batch in engine.ask_duckdb(f"select record from {MESSAGES_WITH_RECORDS}"):
            yield batch.column(0).to_pylist()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where the two stores go; they are removed")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="round-trip-", dir=given.folder))
    try:
        return _compare(folder / "before", folder / "after", given.messages, given.seed)
    finally:
        shutil.rmtree(folder)


def _compare(before: Path, after: Path, count: int, seed: int) -> int:
    began = time.perf_counter()
    with open_store(before, read_only=False) as store:
        for message in messages(count, seed):
            assert store.put(message).status.value == "PUT_OK", message
    print(f"put {count} messages in {time.perf_counter() - began:.0f} s", flush=True)
    began = time.perf_counter()
    rmqctl = [sys.executable, "-m", "rmqctl", "--quiet", "--store"]
    export = [*rmqctl, str(before), "export", "--to", "-", "--as", "jsonl"]
    with subprocess.Popen(export, stdout=subprocess.PIPE) as source:
        put = [*rmqctl, str(after), "put", "--from", "-", "--as-stored", "--keep-times"]
        done = subprocess.run(put, stdin=source.stdout, check=False, stdout=subprocess.DEVNULL)
    print(f"export | put in {time.perf_counter() - began:.0f} s, exit codes {source.returncode} {done.returncode}")
    digests = digest(before), digest(after)
    for name, (number, text) in zip(("before", "after"), digests, strict=True):
        print(f"{name:6} {number} messages, digest {text}")
    is_equal = digests[0] == digests[1]
    print("equal" if is_equal else "NOT EQUAL")
    return 0 if is_equal and (source.returncode, done.returncode) == (0, 0) else 1


if __name__ == "__main__":
    sys.exit(main())
