"""Several command lines, one after another in a process of their own.

python -m tests.support.lines STORE JSON_OF_THE_LINES        one JSON list of exit code, stdout and stderr a line
"""

from __future__ import annotations

import json
import sys

from tests.cli.running import rmqctl

if __name__ == "__main__":
    for words in json.loads(sys.argv[2]):
        # As a variable, for the lines that name what they read.
        run = rmqctl(*words, variables={"RMQCTL_STORE": sys.argv[1], "NO_COLOR": "1"})
        print(json.dumps([run.code, run.out, run.err]), flush=True)
