"""Record what the verbs say of the stores of recorded_stores.py, and the files that they leave:

    python -m tests.verbs.record            all
    python -m tests.verbs.record sound ...  some

Look at the difference before it is committed: a recorded answer is one that was found right.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.cli.running import rmqctl
from tests.support.golden import copy_store
from tests.support.snapshots import contents
from tests.verbs.recorded_stores import NAMES, make

RECORDED = Path(__file__).parent / "recorded"
READING = (
    "check",
    "recover --dry-run",
    "recover --normal --dry-run",
    "recover --abnormal --dry-run",
    "recover --abnormal --keep-index --dry-run",
    "recover --abnormal --as-broker --dry-run",
    "recover --normal --as-broker --compat 5.3 --dry-run",
    "recover --abnormal --as-broker --compat 5.3 --dry-run",
    "truncate-dirty --dry-run",
    "truncate-dirty --offset 11845 --dry-run",
    "simulate",
    "rebuild --dry-run",
    "clean-expired --force --dry-run",
    "salvage",
)
CHANGING = ("recover --yes", "recover --abnormal --keep-index --yes", "truncate-dirty --yes", "rebuild --yes")
SALVAGING = ("salvage --to OUT", "salvage --keep-offsets --to OUT")
VERBS = (*READING, *CHANGING, *SALVAGING)
VOLATILE = (
    (r"\b20\d{6}T\d{6}\.\d{3}(-\w+)", r"ID\1"),
    (r'("(?:disk_used_percent|mtime_ms|abort_ms)": )[\d.]+', r"\g<1>0"),
)
"""Ids of changes, how full the disk is, and times of the clock."""
OF_ROCKSDB = re.compile(r"\.(sst|log)$|/(MANIFEST|OPTIONS|CURRENT|IDENTITY|LOG)")
"""Files of a RocksDB hold identities drawn at random."""
CONSTANT = {"diskMaxUsedSpaceRatio": 95, "diskSpaceWarningLevelRatio": 100, "diskSpaceCleanForciblyRatio": 100}


def answer(name: str, verb: str, folder: Path) -> dict[str, Any]:
    """What a verb says of a store, and the digests of the files that it leaves."""
    made, settings = _made(name)
    root = copy_store(made, folder / "store")
    words = [word for key, value in {**settings, **CONSTANT}.items() for word in ("--set", f"{key}={value}")]
    out = folder / "out"
    run = rmqctl(*words, "--format", "json", *verb.replace("OUT", str(out)).split(), store=root)
    said: dict[str, Any] = {"code": run.code}
    if run.out:
        told = json.loads(plain(run.out, folder))
        # What a change reports beside its files is said by its dry run.
        said |= {key: _rows(told[key]) for key in told if told[key] and (verb not in CHANGING or key == "applied")}
    if run.err:
        said["notes"] = plain(run.err, folder).splitlines()
    if verb not in READING and run.code in (0, 1):
        left = contents(out if verb in SALVAGING and out.exists() else root)
        said["files"] = [
            f"{size} {digest[:8]} {path}" for path, (size, digest) in left.items() if not OF_ROCKSDB.search(path)
        ]
    return said


@cache
def _made(name: str) -> tuple[Path, dict[str, int]]:
    folder = Path(tempfile.mkdtemp(prefix="recorded-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return make(name, folder)


def _rows(value: Any) -> Any:
    """A list of equal objects as a table: the names, then the values of each row."""
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        return value
    names = list(value[0])
    return [names, *(list(row.values()) for row in value)] if all(list(row) == names for row in value) else value


def plain(text: str, folder: Path) -> str:
    """The text without what differs between two runs."""
    text = text.replace(str(folder), "")
    for pattern, put in VOLATILE:
        text = re.sub(pattern, put, text)
    return text


@cache
def recorded(name: str) -> dict[str, Any]:
    """The recorded answers of a store, by verb."""
    found = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))
    return {verb: found[said] if isinstance(said, str) else said for verb, said in found.items()}


def written(said: dict[str, dict[str, Any]]) -> str:
    """JSON with a row on a line; an answer that another verb gave is that verb's name."""
    first: dict[str, str] = {}
    blocks = []
    for verb in VERBS:
        text = _object(said[verb])
        text = _text(first[text]) if text in first else text
        first.setdefault(text, verb)
        blocks.append(f"{_text(verb)}: {text}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _object(said: dict[str, Any]) -> str:
    return "{\n" + ",\n".join(f" {_text(key)}: {_value(said[key])}" for key in sorted(said)) + "}"


def _value(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return _text(value)
    return "[\n" + ",\n".join(f"  {_text(row)}" for row in value) + "]"


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def differences(expected: Any, found: Any, place: str = "") -> Iterator[str]:
    """One line per value that differs."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted(expected.keys() | found.keys()):
            yield from differences(expected.get(key, "absent"), found.get(key, "absent"), f"{place}.{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif isinstance(expected, list) and isinstance(found, list):
        yield from (f"{place}: lacks {_text(row)}" for row in expected if row not in found)
        yield from (f"{place}: also has {_text(row)}" for row in found if row not in expected)
        yield f"{place}: {len(found)} rows, recorded are {len(expected)}"
    elif (type(expected), expected) != (type(found), found):
        yield f"{place}: {_text(found)}, recorded is {_text(expected)}"


def main(names: Sequence[str]) -> int:
    os.environ["TZ"] = "UTC"
    time.tzset()
    RECORDED.mkdir(exist_ok=True)
    for name in names or NAMES:
        with tempfile.TemporaryDirectory(prefix="recorded-") as folder:
            said = {verb: answer(name, verb, Path(folder, str(number))) for number, verb in enumerate(VERBS)}
        (RECORDED / f"{name}.json").write_text(written(said), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
