"""One Spark session for all tests of the pipeline: starting it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from store.query.spark.session import (
        open_session,  # Not at the top: its kernels are compiled first (tests/conftest.py).
    )

    with open_session("local[2]", settings={"spark.sql.shuffle.partitions": "4"}) as session:
        yield session
