"""`python -m rmqctl` is `rmqctl`."""

from __future__ import annotations

import sys
from pathlib import Path

# Python puts the current folder in front, where a store.py or a folder `store` would take the engine's name.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from rmqctl.app import main  # noqa: E402

sys.exit(main())
