"""Mutated inputs for every reader, in process: no traceback, no hang, no signal.

    python -m tests.fuzz [--inputs 1000000] [--seed 1] [--reader NAME]

A reader is a function from bytes; it may give anything or raise one of the errors that it documents. Seeds are what
brokers and this store write. An input flips bits, puts numbers that hurt, cuts, repeats or moves bytes of a seed.
A reader that takes longer than INPUT_TIMEOUT_S ends the run with a traceback. An input that a reader fails on is kept
in tests/fuzz_corpus/<reader>/, and tests/test_fuzz.py runs all that is kept. The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from rmqctl.message_input import parse_stored
from store.config import read_broker_conf
from store.engine.open import open_store
from store.errors import StoreError
from store.files.store_reader import StoreReader
from store.formats.body import decode_body
from store.formats.checkpoint_page import decode_checkpoint
from store.formats.message import Message, decode_record, encode_record
from store.formats.message_id import decode_message_id
from store.formats.properties import decode_properties, split_keys
from store.formats.queue_unit import decode_ext_unit
from store.reading.filter.sql92 import compile_sql
from store.reading.filter.tags import TagExpression
from store.setting_values import parse_delay_levels, parse_hours
from store.structures.commitlog.scan import ScanRules, scan_segment
from store.structures.index.geometry import geometry_of
from store.structures.tables.fastjson import parse_fastjson
from store.verbs.check.check import check_files
from store.verbs.check.options import CheckOptions
from tests.fuzzed_files import EVERY, FILE_EVERY, FILES
from tests.fuzzed_peers import PEERS
from tests.fuzzed_stores import STORE_EVERY, STORES
from tests.support.golden import golden
from tests.support.small_log import SmallLog, SmallSegment
from tests.support.stores import make_store

CORPUS = Path(__file__).with_name("fuzz_corpus")
INPUT_TIMEOUT_S = 300
PEER_EVERY = 200
HURTFUL = (b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff", b"\x80", b"\x01", b"\x02")
TEXT_HURTFUL = (
    b"(",
    b"[" * 40,
    b"{",
    b'"',
    b"\\ud800",
    b"1e999",
    b"-0",
    b"\xff",
    b"\0",
    b"9" * 30,
    b"'",
    b"NULL",
    b"9" * 5000,
    b"[" * 5000,
    "²".encode(),
)


class Reader(NamedTuple):
    """A function of bytes, seeds for its inputs, the errors it may raise, and of how many inputs it gets one."""

    read: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]]
    errors: tuple[type[Exception], ...] = (StoreError,)
    every: int = 1


def records() -> list[bytes]:
    plain = Message("Topic", b"body", 3, b"KEYS\x01a b\x02TAGS\x01t\x02UNIQ_KEY\x010A0B")
    made = [encode_record(plain, topic=b"Topic", sys_flag=flag, queue_offset=7, log_offset=0, store_timestamp_ms=9)
            for flag in (0, 4, 8)]  # fmt: skip
    return [*made, golden("normal").record(0), golden("ipv6").record(0)]


def logs() -> list[bytes]:
    log = SmallLog()
    log.put_many(5, tags="a", keys="k1 k2")
    return [log.data, log.data + bytes(64), golden("normal").log[0][:3000]]


def index_files() -> list[bytes]:
    return [sorted((golden(name).store / "index").iterdir())[0].read_bytes() for name in ("normal", "preblank")]


def walk(data: bytes) -> int:
    return sum(1 for _ in scan_segment(SmallSegment(memoryview(data)), rules=ScanRules(check_crc=True)))


def geometry(data: bytes) -> object:
    return geometry_of(memoryview(data))


def body(data: bytes) -> object:
    return [decode_body(data[1:], (data[0] if data else 0) << 8 | 1, max_size=1 << 20)]


def broker_conf(data: bytes) -> object:
    with tempfile.NamedTemporaryFile(suffix=".conf") as file:
        Path(file.name).write_bytes(data)
        return read_broker_conf(file.name)


def whole_store(data: bytes) -> object:
    """The bytes as one file of a small store: which one, the first byte says."""
    with tempfile.TemporaryDirectory() as folder:
        root = make_store(Path(folder, "s"), 12)
        files = [*sorted(path for path in root.rglob("0*") if path.is_file()), root / "checkpoint"]
        files[(data[0] if data else 0) % len(files)].write_bytes(data[1:])
        findings = [f.kind for f in check_files(StoreReader(str(root)), CheckOptions(threads=1))]
        with contextlib.suppress(StoreError), open_store(root) as store:
            for queue in store.queues():
                store.get(queue.topic, queue.queue_id, queue.min_offset)
        return findings


def text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode("utf-8", "replace"))


def seeds(*texts: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [one.encode() for one in texts]


READERS: dict[str, Reader] = {
    "record": Reader(decode_record, records),
    "log": Reader(walk, logs),
    "properties": Reader(decode_properties, seeds("KEYS\x01a b\x02TAGS\x01t\x02", "A\x01\x02\x02B", "\x01\x01")),
    "keys": Reader(text(lambda t: list(split_keys(t))), seeds("a  b c", "", " ")),
    "checkpoint": Reader(decode_checkpoint, lambda: [(golden("normal").store / "checkpoint").read_bytes()[:64]]),
    "index geometry": Reader(geometry, index_files, every=20),
    "extension unit": Reader(lambda data: decode_ext_unit(data, 0), lambda: [bytes(40), b"\0\x14" + bytes(40)]),
    "body": Reader(body, lambda: [b"\x03x\x9c\x03\0\0\0\0\x01", b'\x01\x04"M\x18d@\xa7', b"\x02(\xb5/\xfd\0X"]),
    "message id": Reader(text(decode_message_id), seeds("0A0B0C0D00002A9F0000000000000000", "0" * 56)),
    "broker.conf": Reader(broker_conf, seeds("a=b\nmaxIndexNum = 5\n", "deleteWhen=04;16", "x\\\n y"), every=5),
    "delay levels": Reader(text(parse_delay_levels), seeds("1s 5s 10m 2h", "1d")),
    "delete hours": Reader(text(parse_hours), seeds("04;16", "23")),
    "tables": Reader(
        text(parse_fastjson), seeds('{"offsetTable":{"T@g":{0:12,1:3}}}', "[1,{2:3}]"), (ValueError, StoreError)
    ),
    "put --from": Reader(
        lambda data: parse_stored(data, "T", 5),
        seeds('{"topic":"T","body_text":"x","keys":["a"]}'),
        (ValueError, StoreError),
    ),
    "tags filter": Reader(text(TagExpression), seeds("A || B", "*", "none")),
    "sql filter": Reader(
        text(compile_sql), seeds("a > 5 AND b IS NOT NULL", "a IN ('x','y') OR NOT (b = 3.5)"), every=40
    ),
    "store": Reader(
        whole_store,
        lambda: [bytes([n]) + data for n in range(8) for data in (logs()[0], index_files()[1][:400])],
        every=400,
    ),
    **{name: Reader(read, found, every=EVERY.get(name, FILE_EVERY)) for name, (read, found) in FILES.items()},
    **{
        name: Reader(read, found, every=STORE_EVERY.get(name, PEER_EVERY))
        for name, (read, found) in (PEERS | STORES).items()
    },
}


def mutate(data: bytes, random: Random) -> bytes:
    """The bytes with one to four changes."""
    changed = bytearray(data)
    for _ in range(random.randrange(1, 5)):
        at = random.randrange(len(changed) + 1)
        kind = random.randrange(6)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            hurtful = random.choice(HURTFUL + TEXT_HURTFUL)
            changed[at : at + len(hurtful)] = hurtful
        elif kind == 2:
            del changed[at:]
        elif kind == 3:
            changed[at:at] = changed[: random.randrange(1, 40)]
        elif kind == 4:
            del changed[at : at + random.randrange(1, 12)]
        else:
            changed[at : at + 4] = random.randbytes(4)
    return bytes(changed)


def failure(reader: Reader, data: bytes) -> Exception | None:
    """What the reader raises that it may not."""
    try:
        reader.read(data)
    except reader.errors:
        return None
    except Exception as error:
        return error
    return None


def keep(name: str, data: bytes) -> Path:
    """Writes an input into the corpus."""
    folder = CORPUS / name.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    return path


def kept() -> list[tuple[str, Path]]:
    """Every input of the corpus, with the name of its reader."""
    names = {name.replace(" ", "-"): name for name in READERS}
    return [(names[path.parent.name], path) for path in sorted(CORPUS.glob("*/*"))]


def fuzz(inputs: int, seed: int, names: Sequence[str] = tuple(READERS)) -> dict[str, dict[str, int]]:
    """Inputs and failures by reader; what failed is kept."""
    random = Random(seed)
    share = sum(1 / READERS[name].every for name in names)
    counts = {}
    for name in names:
        reader = READERS[name]
        originals, failures = reader.seeds(), 0
        count = max(1, round(inputs / reader.every / share))
        for number in range(count):
            if number % 256 == 0:
                faulthandler.dump_traceback_later(INPUT_TIMEOUT_S, exit=True)
            data = mutate(random.choice(originals), random)
            error = failure(reader, data)
            if error is not None:
                failures += 1
                if failures <= 3:
                    sys.stderr.write(f"{name}: {type(error).__name__}: {error}: {keep(name, data)}\n")
        counts[name] = {"inputs": count, "failures": failures}
    faulthandler.cancel_dump_traceback_later()
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", choices=READERS, action="append")
    arguments = parser.parse_args()
    started = time.monotonic()
    counts = fuzz(arguments.inputs, arguments.seed, arguments.reader or tuple(READERS))
    failures = sum(count["failures"] for count in counts.values())
    seconds = round(time.monotonic() - started, 1)
    total = sum(count["inputs"] for count in counts.values())
    print(json.dumps({"inputs": total, "failures": failures, "seconds": seconds, "readers": counts}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
