"""Each verb says of each damaged store what was recorded, to the last value, and leaves the same files.

python -m tests.verbs.record writes the answers anew, where a change of them is wanted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.quickly import one_of
from tests.verbs.record import RECORDED, VERBS, answer, differences, recorded
from tests.verbs.recorded_stores import NAMES


@pytest.mark.leaves_damage
@pytest.mark.parametrize(("name", "verb"), one_of(13, NAMES, VERBS))
def test_a_verb_says_and_leaves_what_was_recorded(name: str, verb: str, tmp_path: Path) -> None:
    found = list(differences(recorded(name)[verb], answer(name, verb, tmp_path)))
    assert not found, "\n".join([*found[:20], f"{len(found)} differences; python -m tests.verbs.record {name}"])


def test_each_store_has_a_recording() -> None:
    assert sorted(path.stem for path in RECORDED.iterdir()) == sorted(NAMES)
