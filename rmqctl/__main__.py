"""`python -m rmqctl` is `rmqctl`."""

from __future__ import annotations

import sys

from rmqctl.app import main

sys.exit(main())
