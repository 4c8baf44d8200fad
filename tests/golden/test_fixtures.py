"""The archives are the ones the manifest describes, and unpacking loses nothing."""

from __future__ import annotations

import pytest

from tests.support.golden import FIXTURES, MANIFEST, WITH_ANSWERS, archive_digest, golden
from tests.support.snapshots import contents


@pytest.mark.parametrize("name", MANIFEST)
def test_an_archive_has_the_digest_of_the_manifest(name: str) -> None:
    assert archive_digest(name) == MANIFEST[name]["sha256"]


def test_every_archive_is_in_the_manifest() -> None:
    archives = {path.relative_to(FIXTURES).as_posix() for path in FIXTURES.rglob("*.tar.*")}
    assert archives == {entry["archive"] for entry in MANIFEST.values()}


@pytest.mark.parametrize("name", WITH_ANSWERS)
def test_an_unpacked_store_is_the_one_the_broker_left(name: str) -> None:
    assert contents(golden(name).store) == golden(name).files("pristine")


def test_unpacking_keeps_times_to_the_nanosecond() -> None:
    times = [path.stat().st_mtime_ns for path in golden("many").store.rglob("0*")]
    assert any(time % 1000 for time in times)
