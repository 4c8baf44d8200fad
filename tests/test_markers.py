"""What `pytest` alone leaves out."""

from __future__ import annotations

import pytest

from tests.support.quickly import chosen_marks


def test_every_process_of_a_run_without_words_leaves_out_the_slow_tests(pytestconfig: pytest.Config) -> None:
    if pytestconfig.args_source is pytest.Config.ArgsSource.TESTPATHS:
        assert pytestconfig.option.markexpr


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ("", "not slow and not other_turn and not long"),
        ("not spark", "(not spark) and not slow and not other_turn and not long"),
        ("spark or not spark", "(spark or not spark) and not slow and not other_turn and not long"),
        ("slow", "slow"),
        ("slow or other_turn", "slow or other_turn"),
        ("long", "long"),
    ],
)
def test_a_run_of_all_files_leaves_out_what_its_words_say_nothing_of(given: str, chosen: str) -> None:
    assert chosen_marks(given) == chosen
