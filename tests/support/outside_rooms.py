"""Count the lines that the 5.4 and 5.5 structures took outside of their rooms, the registry and the version object:

python -m tests.support.outside_rooms

Every line that a commit on them added to a Python file counts, also one that a later commit took away again.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUBJECTS = re.compile(
    r"5\.[45]|message database|index entries of tags|messages by tags|queue database in a folder|wheels from snapshots"
    r"|half messages of the database|upgrade or a downgrade|keys that a start never enters",
    re.IGNORECASE,
)
ROOMS = (
    "store/structures/messagedb/",
    "store/structures/queuedb/",
    "store/structures/lightqueue/",
    "store/structures/timer/timeline",
    "store/structures/registry.py",
    "store/broker_line.py",
)
REASONS = {
    "store/files": "RocksDB copies, opened and edited, moved out of the queue database's room: two rooms need them",
    "store/verbs": "upgrade show and rebuild message-database are verbs; starts and cuts ask rooms that were not asked",
    "store/structures/timer": "snapshots of the wheel, delete keys in two forms, rolls without a count",
    "store/structures/commitlog": "where a start of 5.5 begins; split batches without outer properties",
    "store/structures/index": "entries of tags in index files, and an index that a database holds",
    "store/structures": "findings and small hooks of other rooms",
    "store/opened": "queues and keys of a store from files and from databases at once",
    "store/engine": "ends of transactions in the database's topics; queries of a served store",
    "store/reading": "queries by tags, and by the database",
    "store/kernels": "hashes of tags, beside those of keys",
    "store/formats": "the checkpoint's sixth field",
    "store": "settings, and names of folders",
    "rmqctl": "two commands, three options, words and hints",
}
"""By folder, the longest that fits."""


def main() -> None:
    """Print the lines by folder with their reason, and the sums."""
    inside, outside = 0, Counter[str]()
    for path, added in _added():
        if path.startswith(ROOMS):
            inside += added
        else:
            outside[max((one for one in REASONS if path.startswith(one)), key=len)] += added
    for folder, count in outside.most_common():
        print(f"{count:6,}  {folder:27}  {REASONS[folder]}")
    print(f"{outside.total():6,}  outside, {inside:,} in the rooms, the registry and the version object")


def _added() -> list[tuple[str, int]]:
    """File and number of added lines, commit by commit."""
    words = ["git", "log", "--numstat", "--no-renames", "--format=subject %s", "--", "store", "rmqctl"]
    found, is_meant = [], False
    for line in subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith("subject "):
            is_meant = bool(SUBJECTS.search(line))
        elif is_meant and line.endswith(".py"):
            added, _, path = line.split("\t")
            found.append((path, int(added)))
    return found


if __name__ == "__main__":
    main()
