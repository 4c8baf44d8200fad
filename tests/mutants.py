"""Change the code, one place at a time, and require that a test fails.

    python -m tests.mutants                                     all named mutants: the rules that decide over data
    python -m tests.mutants keep-index ...                      some of them
    python -m tests.mutants --random 100 --seed 1               a random hundred of all rooms, by operator
    python -m tests.mutants --random 100 store/structures/commitlog ...    of some rooms or files
    python -m tests.mutants --random 100 --turn 4711            of one room: each number takes the next one
    python -m tests.mutants --random 30 --spark store/query/spark          with the tests that start Spark
    python -m tests.mutants --random 30 store/files --tests tests/files    by these tests: soon there for one room

A process imports the tests of the rooms (TESTS) and notes which lines each runs. The notes are kept in a temporary
folder while a file of tests stays as it is; remove them after large changes. Each mutant gets a fork of the process, in
which the live functions have the changed code, and which runs the tests that run the statement. What an import runs is
tried in a process that has imported nothing. No file is changed, and processes that a test starts run the code as it
is. Prints each survivor and a table of rooms; exits with 1 when fewer than 90 % of a room is killed. A mutant counts
as killed when a test hangs: takes several times what it took without one. mutants.toml has the named mutants, and the
changes that change nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pickle
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest

from tests.conftest import MEMORY, has_memory
from tests.support import warm
from tests.support.bounds import keep_writes_in
from tests.support.operators import TOLD, Mutant, code_of, mutants_of
from tests.support.quickly import LEFT_OUT
from tests.support.warm import (
    PASSED,
    TESTS_FAILED,
    WORKERS,
    Change,
    Chosen,
    Known,
    Limited,
    Notes,
    Warm,
    file_of,
    function_of,
    imported_as,
    in_fork,
)

ROOT = Path(__file__).resolve().parent.parent
MOST_S = 10
"""A mutant is tried for so long, by what the tests take without one; --seconds gives another time."""
WANTED_SHARE = 0.9
FAR = 2
"""The rank of a test that has nothing to do with a mutant."""
FLOORS = ("store/structures/", "store/verbs/", "store/engine/", "store/query/")
"""Folders of rooms."""
AT_RANDOM = ("test_crash.py", "test_mutated_stores.py", "test_power_cuts.py", "test_soak.py", "test_stateful.py")
"""Tests that are left out: a change that they alone see, by chance, wants a test of its own."""
OF_ALL_ROOMS = "tests/test_left_out.py"
"""The test of the defaults of all parameters and fields."""
OF_IMPORTS = ("tests/cli/test_man.py", OF_ALL_ROOMS)
"""Tests that hold what an import makes: the options of all commands, their ranges and defaults."""
PRELOADED = ("numpy", "hypothesis", "pyarrow", "typer", "jsonschema")
"""Imported once, before the forks: nothing of the project is among them."""

TESTS = {
    "store/kernels": (
        "tests/structures/index",
        "tests/structures/consumequeue",
        "tests/dispatch",
        "tests/cli/test_put_lines.py",
        "tests/cli/test_record_lines.py",
        "tests/structures/commitlog/test_usual_put.py",
        "tests/structures/commitlog/test_bulk_put.py",
        "tests/structures/test_compared_at_once.py",
        "tests/engine/live/test_group_commit.py",
    ),
    "store/structures/commitlog": (
        "tests/engine/live",
        "tests/golden/test_writing.py",
        "tests/structures/test_put.py",
        "tests/structures/test_state.py",
        "tests/structures/batchqueue/test_inner_messages.py",
        "tests/structures/consumequeue/test_light_queues.py",
        "tests/formats/test_given.py",
        "tests/dispatch",
        "tests/opened/test_log_end.py",
        "tests/query/tables",
        "tests/query/embedded/test_engine.py",
        "tests/verbs/test_dump.py",
        "tests/verbs/recover/test_rules.py",
        "tests/verbs/recover/test_start.py",
        "tests/verbs/recover/test_torn_properties.py",
        "tests/verbs/recover/test_lost.py",
        "tests/verbs/rebuild/test_scope.py",
        "tests/verbs/salvage/test_carve.py",
        "tests/verbs/check/test_findings.py",
    ),
    "store/structures/consumequeue": (
        "tests/structures/test_compared_at_once.py",
        "tests/golden/test_reading.py",
        "tests/dispatch",
        "tests/kernels/test_dispatch.py",
        "tests/opened/test_queue_view.py",
        "tests/verbs/recover/test_torn_units.py",
        "tests/verbs/check/test_findings.py",
        "tests/verbs/check/test_many_queues.py",
    ),
    "store/structures/index": (
        "tests/structures/test_compared_at_once.py",
        "tests/golden/test_reading.py",
        "tests/dispatch",
        "tests/golden/test_writing.py",
        "tests/opened/test_lost_for_writers.py",
        "tests/verbs/recover/test_lost_index_files.py",
        "tests/verbs/check/test_findings.py",
        "tests/verbs/check/test_geometries.py",
        "tests/verbs/rebuild",
    ),
    "store/structures/batchqueue": (
        "tests/structures/test_foretold.py",
        "tests/structures/test_damaged_structures.py",
        "tests/verbs/test_dump.py",
        "tests/verbs/recover/test_rule_tables.py",
    ),
    "store/structures/checkpoint": (
        "tests/structures/test_small_files.py",
        "tests/opened/test_checkpoint.py",
        "tests/verbs/test_dump.py",
        "tests/verbs/check/test_promises.py",
        "tests/verbs/recover/test_checkpoint_review.py",
    ),
    "store/structures/delayoffsets": (
        "tests/engine/services/test_delay.py",
        "tests/engine/services/test_delay_offsets.py",
        "tests/engine/services/test_schedule.py",
        "tests/verbs/test_dump.py",
    ),
    "store/structures/epochs": (
        "tests/engine/ha/test_controller.py",
        "tests/structures/test_state.py",
        "tests/verbs/backup/test_restore.py",
        "tests/test_outside_numbers.py",
    ),
    "store/structures/extension": ("tests/structures/test_small_files.py", "tests/verbs/test_dump.py"),
    "store/structures/queuedb": (
        "tests/structures/test_foretold.py",
        "tests/structures/messagedb/test_put_beside.py",
        "tests/opened/test_delays.py",
        "tests/verbs/recover/test_rule_tables.py",
        "tests/verbs/test_upgrade.py",
        "tests/golden/test_fivefive.py",
        "tests/structures/messagedb/test_recover.py",
    ),
    "store/structures/messagedb": (
        "tests/structures/queuedb/test_both_databases.py",
        "tests/golden/test_fivefive.py",
        "tests/opened/test_detect.py",
        "tests/verbs/test_dump.py",
        "tests/verbs/test_upgrade.py",
        "tests/verbs/salvage/test_half_messages.py",
    ),
    "store/structures/dledger": (
        "tests/structures/test_damaged_structures.py",
        "tests/verbs/test_dump.py",
        "tests/structures/test_foretold.py",
    ),
    "store/structures/compaction": (
        "tests/structures/test_foretold.py",
        "tests/verbs/test_dump.py",
    ),
    "store/structures/timer": (
        "tests/structures/test_foretold.py",
        "tests/verbs/test_dump.py",
        "tests/verbs/test_upgrade.py",
        "tests/structures/messagedb/test_recover.py",
        "tests/structures/messagedb/test_build.py",
        "tests/structures/test_damaged_structures.py",
    ),
    "store/files": (
        "tests/verbs/backup/test_verify.py",
        "tests/verbs/backup/test_round_trip.py",
        "tests/structures/commitlog",
        "tests/structures/consumequeue",
        "tests/structures/index",
        "tests/structures/tables/test_config_file.py",
        "tests/opened",
        "tests/engine/live",
        "tests/change",
        "tests/cli/test_unreadable.py",
        "tests/cli/test_bundle.py",
        "tests/verbs/bundle",
        "tests/verbs/backup",
        "tests/structures/messagedb/test_recover.py",
        "tests/structures/test_remote.py",
        "tests/verbs/test_segment.py",
        "tests/cli/test_manual.py",
    ),
    "store/dispatch": (
        "tests/structures/commitlog",
        "tests/engine/live/test_reput.py",
        "tests/structures/consumequeue/test_light_queues.py",
        "tests/verbs/check/test_many_queues.py",
    ),
    "store/opened": (
        "tests/change",
        "tests/test_public_api.py",
        "tests/verbs/recover",
        "tests/verbs/test_info.py",
        "tests/verbs/test_upgrade.py",
        "tests/verbs/check/test_resumed.py",
        "tests/structures/messagedb/test_query.py",
        "tests/structures/queuedb/test_both_databases.py",
        "tests/structures/queuedb/test_rocksdb.py",
        "tests/reading",
    ),
    "store/engine/live": (
        "tests/structures/commitlog",
        "tests/test_message_store.py",
        "tests/verbs/recover/test_no_space.py",
    ),
    "store/engine/services": ("tests/engine/serving",),
    "store/engine/serving": ("tests/engine/services/test_served_store.py",),
    "store/engine/ha": ("tests/engine/serving/test_metrics.py", "tests/test_outside_numbers.py"),
    "store/query/embedded": (
        "tests/query/tables",
        "tests/cli/test_put_form.py",
        "tests/cli/test_screens.py",
    ),
    "store/reading": (
        "tests/golden/test_reading.py",
        "tests/cli/test_put_form.py",
        "tests/cli/test_put_lines.py",
        "tests/cli/test_record_lines.py",
        "tests/cli/test_messages.py",
        "tests/engine/serving/test_control.py",
    ),
    "store/change": ("tests/verbs/recover/test_durable.py", "tests/verbs/recover/test_undo.py"),
    "store/verbs/check": (
        "tests/structures/test_damaged_structures.py",
        "tests/structures/test_foretold.py",
        "tests/structures/test_refused_attributes.py",
        "tests/structures/test_compared_at_once.py",
        "tests/structures/consumequeue/test_light_queues.py",
        "tests/verbs/recover/test_checkpoint_review.py",
        "tests/verbs/recover/test_overwritten.py",
        "tests/opened/test_hostile_names.py",
        "tests/cli/test_check.py",
        "tests/verbs/test_recorded.py",
    ),
    "store/verbs/recover": (
        "tests/cli/test_recover.py",
        "tests/engine/services/test_resolve.py",
        "tests/opened/test_lost_for_writers.py",
        "tests/structures/test_refused_attributes.py",
        "tests/verbs/rebuild/test_plan.py",
        "tests/structures/dledger/test_dledger.py",
        "tests/structures/queuedb/test_rocksdb_recover.py",
        "tests/golden/test_recovering.py",
        "tests/opened/test_lost_for_plans.py",
        "tests/verbs/test_recorded.py",
    ),
    "store/verbs/clean": (
        "tests/engine/live/test_cleaning.py",
        "tests/engine/live/test_cleaning_rules.py",
        "tests/opened/test_lost_for_plans.py",
        "tests/structures/queuedb/test_rocksdb_cut.py",
    ),
    "store/verbs/salvage": ("tests/verbs/test_recorded.py",),
    "store/verbs/rebuild": (
        "tests/verbs/recover/test_durable.py",
        "tests/structures/queuedb/test_rocksdb_rebuild.py",
    ),
    "rmqctl": (
        "tests/cli",
        "tests/test_config.py",
        "tests/engine/ha/test_receive.py",
        "tests/engine/ha/test_send.py",
        "tests/engine/services/test_delay.py",
        "tests/engine/services/test_delay_offsets.py",
        "tests/engine/services/test_resolve.py",
        "tests/engine/services/test_transactions.py",
        "tests/engine/serving/test_commands.py",
        "tests/query/embedded/test_export.py",
        "tests/structures/messagedb/test_query.py",
        "tests/structures/timer/test_timer.py",
        "tests/verbs/find/test_command.py",
        "tests/verbs/recover/test_bad_input.py",
        "tests/verbs/salvage/test_command.py",
        "tests/verbs/test_diff.py",
        "tests/verbs/test_doctor.py",
        "tests/verbs/test_dump.py",
        "tests/verbs/test_fingerprint.py",
        "tests/verbs/test_info.py",
        "tests/verbs/test_lag.py",
        "tests/verbs/test_reset_offsets.py",
        "tests/verbs/test_stale.py",
        "tests/verbs/test_upgrade.py",
    ),
    "store/verbs/find": ("tests/verbs/test_segment.py", "tests/structures/batchqueue"),
    "store/layout.py": ("tests/opened",),
    "store/config.py": ("tests/cli/test_config.py",),
    "store/setting_values.py": ("tests/test_config.py", "tests/opened/test_delays.py"),
    "store/broker_line.py": (
        "tests/test_config.py",
        "tests/structures/consumequeue",
        "tests/structures/commitlog",
        "tests/verbs/recover/test_rule_tables.py",
        "tests/verbs/recover/test_rules.py",
        "tests/verbs/clean",
        "tests/engine/live/test_cleaning_rules.py",
    ),
    "store/engine/writable_store.py": (
        "tests/test_message_store.py",
        "tests/structures/test_put.py",
        "tests/engine/live",
        "tests/engine/ha/test_service.py",
        "tests/structures/messagedb/test_query.py",
    ),
    "store/engine/open_for_writing.py": ("tests/engine/live", "tests/engine/services", "tests/opened"),
    "store/engine/open.py": ("tests/test_public_api.py", "tests/test_message_store.py", "tests/opened"),
    "store/structures/registry.py": (
        "tests/structures/test_state.py",
        "tests/structures/test_foretold.py",
        "tests/opened",
        "tests/verbs/test_dump.py",
        "tests/verbs/test_upgrade.py",
        "tests/verbs/check",
    ),
    "store/structures/findings.py": ("tests/verbs/check", "tests/cli/test_check.py"),
    "store/structures/tables": (
        "tests/cli/test_config_tables.py",
        "tests/verbs/test_lag.py",
    ),
    "store/structures/state": ("tests/verbs/test_dump.py",),
    "store/verbs/backup": ("tests/cli/test_backup.py",),
    "store/verbs/info.py": ("tests/opened/test_missing_parts.py", "tests/verbs/recover"),
    "store/verbs/lost_parts.py": ("tests/opened", "tests/verbs/test_info.py", "tests/verbs/recover/test_lost.py"),
    "store/verbs/queue_ends.py": (
        "tests/verbs/backup/test_queue_ends.py",
        "tests/verbs/rebuild/test_expired.py",
        "tests/verbs/test_info.py",
        "tests/verbs/test_lag.py",
        "tests/verbs/salvage/test_config_tables.py",
        "tests/structures/consumequeue",
    ),
    "store/verbs/tables.py": (
        "tests/structures/tables",
        "tests/cli/test_config_tables.py",
    ),
    "store/query/tables": (
        "tests/query/embedded",
        "tests/structures/batchqueue/test_inner_messages.py",
    ),
    "store/engine/remoting": ("tests/cli/test_replay.py",),
    "store/verbs/bundle": ("tests/cli/test_bundle.py",),
    "store/verbs/replay": ("tests/cli/test_replay.py",),
    "store/formats": (
        "tests/structures/batchqueue",
        "tests/verbs/backup/test_create.py",
        "tests/verbs/backup/test_verify.py",
        "tests/kernels/test_scan.py",
        "tests/structures/tables",
        "tests/structures/commitlog",
        "tests/structures/consumequeue",
        "tests/structures/dledger",
        "tests/structures/index",
        "tests/structures/timer/test_timer.py",
        "tests/engine/stats/test_store_stats.py",
        "tests/verbs/test_dump.py",
        "tests/verbs/bundle",
        "tests/engine/remoting",
    ),
}
"""The tests that hold a room, beside those of its own name."""


class Named(NamedTuple):
    """A rule with one change, and the test that must fail for it."""

    name: str
    file: str
    rule: str
    mutated: str
    test: str


def preload() -> None:
    """Import what every fork needs."""
    for module in PRELOADED:
        with contextlib.suppress(ImportError):
            __import__(module)


def run_tests(tests: Sequence[str], *plugins: object) -> int:
    """Return the exit code of pytest in this process."""
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--tb=no", *tests], plugins=plugins))


def run_mutated(file: str, make: Callable[[], CodeType], tests: Sequence[str], *plugins: object) -> int:
    """Run the tests with the file's module changed; the exit code is pytest's."""
    # What this process has imported for itself would stay as it is.
    for name in [name for name in sys.modules if name.split(".")[0] in ("store", "rmqctl", "tests")]:
        del sys.modules[name]
    imported_as(make)
    if file.startswith("store/kernels/"):
        os.environ["RMQCTL_NO_EXTENSIONS"] = "1"
    return run_tests(tests, *plugins)


class Trial(NamedTuple):
    """How long the tests of a mutant may take, whether those that start Spark are among them, and given tests."""

    seconds: float = MOST_S
    with_spark: bool = False
    tests: Sequence[str] = ()


class Sample:
    """Mutants of some rooms, and the tests of these rooms."""

    def __init__(self, rooms: Collection[str], mutants: Sequence[Mutant], trial: Trial) -> None:
        self._mutants, self._trial = mutants, trial
        self._is_plain = "store/kernels" in rooms
        of_rooms = {test for room in rooms for test in tests_of(room)}
        self._tests = trial.tests or sorted({*of_rooms, OF_ALL_ROOMS})
        self._known = Known({}, set(), {})

    def survivors(self) -> Iterator[Mutant]:
        """Yield the mutants with which no test fails."""
        kind = "plain" if self._is_plain else "spark" if self._trial.with_spark else "compiled"
        notes = Notes(Path(tempfile.gettempdir()).parent, ROOT, kind, {mutant.file for mutant in self._mutants})
        with tempfile.NamedTemporaryFile() as file:
            plugin = Warm(str(ROOT), notes, self._changes, Path(file.name))
            if in_fork(partial(self._run_warm, plugin), 6 * 3600):
                sys.exit(f"the tests cannot be collected: pytest {' '.join(self._tests)}")
            self._known, codes = pickle.loads(Path(file.name).read_bytes())
        for failing in sorted(self._known.failing):
            print(f"{failing}: has tests that fail without a mutant, which are left out", file=sys.stderr)
        with ThreadPoolExecutor(WORKERS) as pool:
            codes = list(pool.map(self._tried_anew, self._mutants, codes))
        yield from (mutant for mutant, code in zip(self._mutants, codes, strict=True) if code == PASSED)

    def _run_warm(self, plugin: Warm) -> int:
        if self._is_plain:
            os.environ["RMQCTL_NO_EXTENSIONS"] = "1"
        left_out = [f"--ignore-glob=*/{name}" for name in AT_RANDOM]
        marked = " and ".join(f"not {mark}" for mark in (*LEFT_OUT, *([] if self._trial.with_spark else ["spark"])))
        return run_tests([*self._tests, "-m", marked, *left_out], plugin)

    def _changes(self, known: Known) -> list[Change | None]:
        self._known = known
        return [None if self._at_import(mutant) else self._change(mutant) for mutant in self._mutants]

    def _at_import(self, mutant: Mutant) -> bool:
        return mutant.place.at_import or bool(self._known.at_import.get(mutant.function, 0) & mutant.lines)

    def _change(self, mutant: Mutant) -> Change:
        """Choose the tests that run the statement, or any where it runs at import: who uses a constant is not seen.

        Those that are named for the module come first, then those that run its lines. Functions of tests have turns of
        the same time, so that no long table comes before the others. Each of the two may take the seconds of a mutant.
        """
        path = str(ROOT / mutant.file)
        source = (ROOT / mutant.file).read_text(encoding="utf-8")
        at_import = self._at_import(mutant)
        rank = self._rank_of_file if at_import else self._rank
        ranked = {name: (rank(mutant, test.lines), test.seconds) for name, test in self._known.tests.items()}
        turns, tests = defaultdict[str, float](float), dict[str, tuple[int, float]]()
        for name in sorted((name for name in ranked if ranked[name][0] < FAR), key=ranked.__getitem__):
            turns[function_of(name)] += ranked[name][1]
            tests[name] = ranked[name][0], turns[function_of(name)]
        first = (f"test_{Path(path).stem}.py", *(OF_IMPORTS if at_import else ()))
        is_named = {test: any(name in test for name in first) for test in tests}
        in_turns = [(one, ranked[one][1]) for one in sorted(tests, key=tests.__getitem__)]
        named, others = ([one for one in in_turns if is_named[one[0]] == has] for has in (True, False))
        original = partial(compile, source, path, "exec", dont_inherit=True)
        chosen = [*self._first_of(named), *self._first_of(others)]
        # The tests of a file one after the other: its shared fixtures are made once.
        files = list(dict.fromkeys(file_of(test) for test in chosen))
        chosen.sort(key=lambda test: files.index(file_of(test)))
        return Change(partial(code_of, mutant, source, path), original, chosen)

    def _rank(self, mutant: Mutant, lines: dict[str, int]) -> int:
        """A test that runs the statement comes before one that calls the function."""
        if mutant.function not in lines:
            return FAR
        return 0 if lines[mutant.function] & mutant.lines else 1

    def _rank_of_file(self, mutant: Mutant, lines: dict[str, int]) -> int:
        return 0 if any(function.startswith(f"{mutant.file}::") for function in lines) else 1

    def _first_of(self, tests: Sequence[tuple[str, float]]) -> Iterator[str]:
        """Take tests from the front that take the seconds of a mutant together, one at least."""
        sums = accumulate(seconds for _, seconds in tests)
        for test, total in zip(tests, sums, strict=True):
            if total <= self._trial.seconds or test == tests[0]:
                yield test[0]

    def _tried_anew(self, mutant: Mutant, code: int | None) -> int:
        """Try a mutant in a process that has not imported its module, where it could not be tried otherwise."""
        if code not in (None, warm.NOT_IN_PLACE):
            return code
        change = self._change(mutant)
        files = list(dict.fromkeys(map(file_of, change.tests)))
        plugins = Chosen(change.tests, self._known), Limited(self._known)
        return in_fork(partial(run_mutated, mutant.file, change.make, files, *plugins), 600) if files else PASSED


def tests_of(room: str) -> tuple[str, ...]:
    """Name the tests of a room: those of its own name, and those beside them."""
    name = Path("tests", room.removeprefix("store/")).with_suffix("")
    own = (name, name.with_name(f"test_{name.name}.py"))
    return (*(str(test) for test in own if (ROOT / test).exists()), *TESTS.get(room, ())) or ("tests/cli",)


def room_of(file: str) -> str:
    """Name the room of a file: the folder of the engine, or the command line as a whole."""
    depth = 3 if file.startswith(FLOORS) else 2
    return "rmqctl" if file.startswith("rmqctl/") else "/".join(file.split("/")[:depth])


def equivalents() -> set[tuple[str, str, str]]:
    """Read the changes that change nothing: file, source line and change."""
    return {(each["file"], each["line"], each["change"]) for each in TOLD["equivalent"]}


def all_mutants(places: Sequence[str]) -> Iterator[tuple[Mutant, str]]:
    """Yield the mutants of files whose names begin with one of the places, each with its source line."""
    for path in sorted([*(ROOT / "store").rglob("*.py"), *(ROOT / "rmqctl").rglob("*.py")]):
        file = str(path.relative_to(ROOT))
        if not places or file.startswith(tuple(places)):
            source = path.read_text(encoding="utf-8")
            lines = source.splitlines()
            yield from ((mutant, lines[mutant.line - 1].strip()) for mutant in mutants_of(file, source))


def room_at(turn: int) -> str:
    """Name the room whose turn it is: a folder; that of Spark takes longer than a run of CI may."""
    rooms = sorted(room for room in TESTS if room.startswith(FLOORS) and not room.endswith((".py", "spark")))
    return rooms[turn % len(rooms)]


def try_random(
    count: int,
    seed: int,
    places: Sequence[str],
    least: float = WANTED_SHARE,
    trial: Trial = Trial(),  # noqa: B008
) -> int:
    """Try a sample of the places' mutants, and print the survivors and a table."""
    known = equivalents()
    made = list(all_mutants(places))
    sample = sorted(random.Random(seed).sample(made, min(count, len(made))))
    rooms: dict[str, list[Mutant]] = defaultdict(list)
    for mutant, line in sample:
        if (mutant.file, line, mutant.change) not in known:
            rooms[room_of(mutant.file)].append(mutant)
    survivors = Counter(room_of(mutant.file) for mutant in survivors_of(rooms, trial))
    table = [(name, len(mutants), survivors[name]) for name, mutants in rooms.items()]
    print(f"\n{'room':24} {'made':>5} {'killed':>7} {'survived':>9}")
    for name, tried, survived in [*table, ("all", sum(row[1] for row in table), sum(row[2] for row in table))]:
        print(f"{name:24} {tried:5} {tried - survived:7} {survived:9}")
    return int(any(survived > (1 - least) * tried for _, tried, survived in table))


def survivors_of(rooms: Mapping[str, Sequence[Mutant]], trial: Trial) -> Iterator[Mutant]:
    """Print and yield the survivors of all rooms; the kernels' tests run with kernels that are not compiled."""
    for plain in (False, True):
        chosen = {name: mutants for name, mutants in rooms.items() if (name == "store/kernels") == plain}
        for mutant in (
            Sample(chosen, [one for each in chosen.values() for one in each], trial).survivors() if chosen else ()
        ):
            print(f"{mutant.file}:{mutant.line}: {mutant.change}", flush=True)
            yield mutant


def try_named(names: Sequence[str]) -> int:
    """Try the named mutants; a rule whose text is not in its file any more survives."""
    chosen = [Named(**each) for each in TOLD["named"] if not names or each["name"] in names]
    if in_fork(partial(run_tests, sorted({mutant.test for mutant in chosen})), 600):
        print("the tests fail without a mutant")
        return 1
    survivors = 0
    for mutant in chosen:
        path = ROOT / mutant.file
        source = path.read_text(encoding="utf-8")
        changed = source.replace(mutant.rule, mutant.mutated)
        make = partial(compile, changed, str(path), "exec", dont_inherit=True)
        work = partial(run_mutated, mutant.file, make, [mutant.test])
        killed = changed != source and in_fork(work, 600) == TESTS_FAILED
        survivors += not killed
        print(f"{mutant.name:24} {'killed' if killed else f'survives pytest {mutant.test}'}", flush=True)
    return min(1, survivors)


def work_folder() -> Path:
    """Give the folder of runs, with what is known from runs before: mutated code writes here alone."""
    folder = Path(tempfile.gettempdir(), f"rmqctl-mutants-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def bound_to(folder: Path) -> bool:
    """Keep all writes in a folder; False where that is not allowed. A mutant may remove any file that root may."""
    try:
        keep_writes_in(folder)
    except OSError:
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="Change the code and require that a test fails.")
    parser.add_argument("names", nargs="*", help="named mutants; with --random, folders or files")
    parser.add_argument("--random", type=int, metavar="N", help="try N random mutants by operator")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--turn", type=int, metavar="N", help="try mutants of one room, and take N as the seed")
    parser.add_argument("--seconds", type=float, default=MOST_S, help="how long tests may take for a mutant")
    parser.add_argument("--spark", action="store_true", help="run the tests that start Spark too; they need a Java")
    parser.add_argument("--tests", nargs="+", default=(), help="files or folders of tests, in place of the rooms'")
    parser.add_argument("--least", type=float, default=WANTED_SHARE, help="the part of a room's mutants to be killed")
    given = parser.parse_args()
    os.chdir(ROOT)
    preload()
    if has_memory():
        tempfile.tempdir = str(MEMORY)
    with tempfile.TemporaryDirectory(dir=work_folder()) as unpacked:
        if os.geteuid() == 0 and not bound_to(work_folder()) and given.random is not None:
            print("root may not make a mount namespace here: try random mutants as another user", file=sys.stderr)
            return 2
        os.environ["TMPDIR"] = tempfile.tempdir = unpacked
        os.environ["RMQCTL_UNPACKED_ARCHIVES"] = os.environ["SPARK_LOCAL_DIRS"] = unpacked
        if given.spark:
            os.environ["JDK_JAVA_OPTIONS"] = f"-Djava.io.tmpdir={unpacked}"
        if given.random is None:
            return try_named(given.names)
        if given.turn is not None:
            given.seed, given.names = given.turn, [room_at(given.turn)]
        trial = Trial(given.seconds, given.spark, given.tests)
        return try_random(given.random, given.seed, given.names, given.least, trial)


if __name__ == "__main__":
    sys.exit(main())
