"""Mutate the rules that decide over data, one by one, and require that the test of each rule fails.

    python -m tests.mutants            all
    python -m tests.mutants keep-index ...

Each mutant is applied to a copy of the checkout. A mutant whose text is not in its file any more is a failure too.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("store", "rmqctl", "tests", "pyproject.toml", "README.md")
TESTS_FAILED = 1


class Mutant(NamedTuple):
    """A rule with one change, and the test that must fail for it."""

    name: str
    file: str
    rule: str
    mutated: str
    test: str


RULES = "tests/cleaning/test_rules.py::"
START = "tests/recovery/test_start.py::"
GET = "tests/reading/test_get_rules.py::"
INDEX = "tests/index/test_index_service.py::"
MUTANTS = [
    Mutant(
        "cleaning-batch-limit",
        "store/cleaning/rules.py",
        "limit = passes * retention.batch_size",
        "limit = passes * retention.batch_size + 1",
        RULES + "test_a_pass_deletes_at_most_its_batch",
    ),
    Mutant(
        "cleaning-age",
        "store/cleaning/rules.py",
        "if now_ms >= segment.mtime_ms + hours * HOUR_MS:",
        "if now_ms > segment.mtime_ms + hours * HOUR_MS:",
        RULES + "test_a_segment_expires_at_the_millisecond",
    ),
    Mutant(
        "get-on-disk-limits",
        "store/reading/get.py",
        "max_messages = config.max_transfer_count_on_message_in_disk",
        "max_messages = config.max_transfer_count_on_message_in_memory",
        GET + "test_a_call_gives_as_many_as_its_limits_allow",
    ),
    Mutant(
        "get-on-disk-distance",
        "store/reading/get.py",
        "on_disk = log_end - unit.log_offset > in_memory_bytes",
        "on_disk = log_end - unit.log_offset >= in_memory_bytes",
        GET + "test_a_message_exactly_as_far_from_the_end_as_the_ratio_of_memory_is_in_memory",
    ),
    Mutant(
        "start-of-4.9",
        "store/opened/log_end.py",
        "NORMAL_SEGMENTS = 3",
        "NORMAL_SEGMENTS = 2",
        START + "test_after_a_shutdown_4_9_starts_at_the_third_last_segment",
    ),
    Mutant(
        "start-of-5.3",
        "store/recovery/start.py",
        "if segment.file_start <= queue_end:",
        "if segment.file_start < queue_end:",
        START + "test_after_a_shutdown_5_3_starts_at_the_segment_that_the_queues_reach_into",
    ),
    Mutant(
        "start-after-a-crash",
        "store/recovery/start.py",
        "if time_ms and time_ms <= limit_ms:",
        "if time_ms and time_ms < limit_ms:",
        START + "test_after_a_crash_the_newest_segment_that_the_checkpoint_covers_is_the_start",
    ),
    Mutant(
        "message-index-safe",
        "store/recovery/start.py",
        "if config.message_index_enable and config.message_index_safe:",
        "if config.message_index_enable and not config.message_index_safe:",
        START + "test_the_index_counts_only_where_it_is_on_and_safe",
    ),
    Mutant(
        "log-end-newest-with-crc",
        "store/opened/log_end.py",
        "if verified.log_end < end.log_end:",
        "if verified.log_end > end.log_end:",
        "tests/opened/test_log_end.py::test_of_a_long_log_the_newest_64_records_are_read_with_crc",
    ),
    Mutant(
        "unconsumed-by-offset",
        "store/recovery/lost.py",
        "(piece >= offsets.get(queue_id, 0))",
        "(piece >= 0)",
        "tests/recovery/test_lost.py::test_the_groups_that_had_not_consumed_are_named",
    ),
    Mutant(
        "keep-index",
        "store/recovery/recover.py",
        "if self.keep_index and begins and min(begins) < start:",
        "if not self.keep_index and begins and min(begins) < start:",
        "tests/recovery/test_keep_index.py",
    ),
    Mutant(
        "bak-is-read",
        "store/brokerconfig/config_file.py",
        '".bak"',
        '".bac"',
        "tests/brokerconfig/test_config_file.py::test_a_broker_loads",
    ),
    Mutant(
        "journal-folder-sync",
        "store/change/journal.py",
        '        if action.path == self.root / "abort":\n            self._flush_folders()\n',
        "",
        "tests/recovery/test_power_cuts.py::test_what_recover_built_is_durable_before_the_abort_marker_goes",
    ),
    Mutant(
        "checkpoint-behind",
        "store/opened/checkpoint.py",
        "return self.page.min_timestamp_ms",
        "return self.page.physic_ms",
        START + "test_the_index_counts_only_where_it_is_on_and_safe",
    ),
    Mutant(
        "index-query-rounds",
        "store/index/index_service.py",
        "for file in reversed(sources):",
        "for file in sources:",
        INDEX + "test_a_query_keeps_to_its_times",
    ),
    Mutant(
        "group-commit",
        "store/live/group_commit.py",
        "while self._segments.flushed_where < next_offset and unmoved < 2:",
        "if self._segments.flushed_where < next_offset and unmoved < 2:",
        "tests/live/test_group_commit.py::"
        "test_a_message_many_segments_behind_the_flushed_place_is_answered_when_it_is_durable",
    ),
]


TIMES_S = itertools.count(1_000_000_000)


def copy_checkout(target: Path) -> None:
    """Copies what the tests need, compiled kernels included; the archives are linked."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target / name)
    for name in (".build", "fixtures", "man"):
        (target / name).symlink_to(ROOT / name)


def run_tests(checkout: Path, tests: list[str]) -> int:
    """The exit code of pytest in the copy."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", "0", "--tb=no", *tests]
    return subprocess.run(command, cwd=checkout, stdout=subprocess.DEVNULL, check=False, timeout=600).returncode


def write(path: Path, text: str) -> None:
    """Writes a source with a time that it never had: bytecode is told to be old by whole seconds and the size alone."""
    path.write_text(text, encoding="utf-8")
    time_s = next(TIMES_S)
    os.utime(path, (time_s, time_s))


def survives(checkout: Path, mutant: Mutant) -> str:
    """Why the mutant survives; empty when its test fails."""
    path = checkout / mutant.file
    text = path.read_text(encoding="utf-8")
    if mutant.rule not in text:
        return f"{mutant.file} has no line: {mutant.rule}"
    write(path, text.replace(mutant.rule, mutant.mutated))
    try:
        code = run_tests(checkout, [mutant.test])
    finally:
        write(path, text)
    return "" if code == TESTS_FAILED else f"pytest {mutant.test} ended with {code}"


def main(names: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder)
        copy_checkout(checkout)
        if run_tests(checkout, sorted({mutant.test for mutant in chosen})):
            print("the tests fail without a mutant")
            return 1
        survivors = 0
        for mutant in chosen:
            reason = survives(checkout, mutant)
            survivors += bool(reason)
            print(f"{mutant.name:24} {'survives: ' + reason if reason else 'killed'}", flush=True)
    return min(1, survivors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
