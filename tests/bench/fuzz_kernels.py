"""Runs the compiled kernels over random and mutated bytes: they must end, and touch no byte outside their buffers.

    python -m tests.bench.fuzz_kernels [--inputs 1000000] [--seed 1]

An input is a stretch of records (made ones, and what brokers wrote) with some of its bytes flipped, zeroed, replaced
by numbers that hurt, cut or moved; one in sixteen is random altogether. It lies in front of a page that may not be
touched, or behind one, and so do the units and the index that are written from it. An input that takes more than a
minute ends the run with a traceback. The last line is JSON.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import time
from collections import Counter

import numpy as np

from tests.support.golden import ALL, golden
from tests.support.guarded import GuardedBuffer, survive
from tests.support.logs import END_OF_FILE, SCHEDULE, log_of, record

HURTFUL = [b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff", b"\x80", b"\x01", b"\x02"]
MAX_SIZE = 2000
INPUT_TIMEOUT_S = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    started = time.monotonic()
    outcomes = fuzz(arguments.inputs, arguments.seed)
    seconds = round(time.monotonic() - started, 1)
    print(json.dumps({"inputs": arguments.inputs, "seed": arguments.seed, "seconds": seconds, "outcomes": outcomes}))


def fuzz(inputs: int, seed: int) -> dict[str, int]:
    """Outcome of the walk → number of inputs that ended so."""
    rng = np.random.default_rng(seed)
    sources, guarded = stretches(), GuardedBuffer(MAX_SIZE + 100)
    outcomes: Counter[str] = Counter()
    for number in range(inputs):
        if number % 4096 == 0:
            faulthandler.dump_traceback_later(INPUT_TIMEOUT_S, exit=True)
        data = mutate(sources[number % len(sources)], rng) if number % 16 else rng.bytes(int(rng.integers(0, 400)))
        placed = guarded.place(data, in_front=bool(number & 4))
        outcome = survive(placed, accept_v2=bool(number & 1), check_crc=bool(number & 2), variant=number)
        outcomes[outcome.name] += 1
    faulthandler.cancel_dump_traceback_later()
    return dict(outcomes)


def stretches() -> list[bytes]:
    """Short runs of records: one of each kind, and the beginnings of what brokers wrote."""
    keys = {"properties": b"KEYS\x01a b  c\x02UNIQ_KEY\x010A0B0C\x02TAGS\x01\xc3\xa9\xf0\x9f\x98\x80"}
    delayed = {"topic": SCHEDULE, "properties": b"DELAY\x013\x02REAL_TOPIC\x01T"}
    made = [
        log_of([{}, keys, delayed, {"sys_flag": 0x30}], END_OF_FILE),
        log_of([{"topic": b"t" * 200}, keys], bytes(50)),
        log_of([keys] * 3),
        record(body=record(position=0)),
    ]
    written = [data[: MAX_SIZE // 2] for name in ALL for data in list(golden(name).log.values())[:1]]
    return made + written


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """One to four changes."""
    changed = bytearray(data)
    for kind in rng.integers(0, 5, int(rng.integers(1, 5))):
        at = int(rng.integers(0, len(changed))) if changed else 0
        if kind == 0 and changed:
            changed[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:
            what = HURTFUL[int(rng.integers(0, len(HURTFUL)))]
            changed[at : at + len(what)] = what
        elif kind == 2:
            del changed[at : at + int(rng.integers(1, 200))]
        elif kind == 3:
            changed[at:at] = rng.bytes(int(rng.integers(1, 9)))
        else:
            size = int(rng.integers(1, 60))
            changed[at : at + size] = bytes(size)
    return bytes(changed[:MAX_SIZE])


if __name__ == "__main__":
    main()
