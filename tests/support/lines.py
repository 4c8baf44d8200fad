"""Several command lines, one after another in a process of their own.

python -m tests.support.lines STORE JSON_OF_THE_LINES        one JSON list of exit code, stdout and stderr a line
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.cli.running import rmqctl

if __name__ == "__main__":
    for words in json.loads(sys.argv[2]):
        # --store contradicts a second word that names what is read.
        names_store = len(words) > 1 and words[1].startswith(sys.argv[1])
        run = rmqctl(*words, store=None if names_store else Path(sys.argv[1]))
        print(json.dumps([run.code, run.out, run.err]), flush=True)
