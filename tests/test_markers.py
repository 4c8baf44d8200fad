"""What `pytest` alone leaves out."""

from __future__ import annotations

import pytest


def test_every_process_of_a_run_without_words_leaves_out_the_slow_tests(pytestconfig: pytest.Config) -> None:
    if pytestconfig.args_source is pytest.Config.ArgsSource.TESTPATHS:
        assert pytestconfig.option.markexpr
