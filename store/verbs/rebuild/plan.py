"""Plan a rebuild: build the scope's files in a staging folder, for a Change that publishes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from store.change.change import Change
from store.config import NAMED_QUEUES, StoreConfig
from store.errors import BadRequest, quoted
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.given import check_kind
from store.formats.topics import SCHEDULE_TOPIC
from store.kernels.native import clock_ms
from store.layout import StoreLayout
from store.opened.arguments import checks_arguments
from store.opened.delays import DELAY_LEVELS, built_levels, describe_assumed_delays, describe_inferred_delays
from store.opened.detect import detect_line, finds_light, infer_config, require_log
from store.opened.reach import reach_store
from store.opened.sizes import assumed_sizes
from store.opened.staged import locked_store, staging
from store.structures.checkpoint.files import confirmed_offset
from store.structures.commitlog.scan import VERIFYING, ScanRules
from store.verbs.rebuild.behind import ends_in_damage, messages_behind
from store.verbs.rebuild.expired import keep_lost_ends
from store.verbs.rebuild.local import rebuild_locally
from store.verbs.rebuild.publish import RebuildPlan, lower_checkpoint, plan_publish
from store.verbs.rebuild.scope import Queue, Rebuild, RebuildReport, RebuildScope
from store.verbs.recover.confirm import describe_unconfirmed

_Settings = Mapping[str, object]
WHOLE = RebuildScope()


@checks_arguments
def plan_rebuild(
    root: str | Path,
    scope: RebuildScope = WHOLE,
    *,
    settings: _Settings | None = None,
    force_empty_log: bool = False,
    rebuild: Rebuild | None = None,
    scratch: str | Path | None = None,
    dry_run: bool = False,
    fs: Filesystem | None = None,
) -> Change[RebuildPlan]:
    """Rebuild queues and index of a store from its log.

    root, settings, scratch and fs are as open_store takes them.

    >>> import tempfile
    >>> from store import Message, RebuildScope, open_store, plan_rebuild
    >>> root = f"{tempfile.mkdtemp()}/store"
    >>> with open_store(root, read_only=False) as store:
    ...     result = store.put(Message.of("Orders", "hello"))
    >>> with plan_rebuild(root, RebuildScope(index=False)) as change:
    ...     change.report.message_count, [row["file"] for row in change.rows()]
    (1, ['consumequeue/Orders/0/00000000000000000000'])

    force_empty_log  accepts an empty log beside queues that are not; else this is refused
    rebuild          builds the files in place of this process
    dry_run          takes no lock, and builds outside of the store

    Raises NotAStore, UnsupportedFormat, StoreLocked, DamagedFile, StoreIOError.
    """
    check_kind("scope", scope, RebuildScope)
    given = settings or {}
    folder, fs = reach_store(root, fs, scratch, to_change=not dry_run)
    with ExitStack() as until_planned:
        layout, fs = until_planned.enter_context(locked_store(folder, given, fs, take=not dry_run))
        staged = until_planned.enter_context(staging(layout, fs, "rebuild", dry_run=dry_run, scratch=scratch))
        if not force_empty_log:
            require_log(layout, fs)
        files = StoreReader.of(layout, fs)
        if "mappedFileSizeCommitLog" in given and not force_empty_log:
            files.check_segment_sizes(StoreConfig().with_settings(given).mapped_file_size_commit_log)
        with_tags = detect_line(layout, fs).indexes_tags
        config = infer_config(layout, given, fs)
        if finds_light(layout, given, fs):
            config = config.with_settings(NAMED_QUEUES)
        # A rebuild of queues and index skips the index if the broker writes none.
        index = scope.index and (config.writes_index_files or not scope.queues)
        scope = replace(scope, index=index, confirmed=confirmed_offset(files), with_tags=with_tags)
        made = (rebuild or _local(files, fs))(staged, config, scope, VERIFYING)
        lost_ends = keep_lost_ends(files, staged, config, scope, fs)
        is_whole = not (config.queues_in_database or ends_in_damage(files, made.log_end))
        if scope.is_narrow and is_whole:
            _require_known(scope, {*files.queues(), *StoreReader(str(staged), fs).queues()})
        change = _publish(layout, config, scope, staged, fs, given)
        has_log = bool(files.segments())
        lower_checkpoint(change, layout, config, scope, is_log_empty=not has_log)
        change.lost = messages_behind(files, scope, made.log_end) if has_log else _shown(layout, given, fs, scope)
        _describe(change, made, files, scope)
        change.remarks += lost_ends
        change.until_closed.push(until_planned.pop_all())
    return change


def _require_known(scope: RebuildScope, queues: Collection[Queue]) -> None:
    """Raise BadRequest for a topic or queue that is not among these."""
    if any(map(scope.wants, queues)):
        return
    which = f"topic {quoted(str(scope.topic))}"
    which = which if scope.queue_id is None else f"queue_id {scope.queue_id} of {which}"
    raise BadRequest(f"{which} is in neither the log nor the queues", code="unknown-topic")


def _local(files: StoreReader, fs: Filesystem) -> Rebuild:
    def build(staged: Path, config: StoreConfig, scope: RebuildScope, rules: ScanRules) -> RebuildReport:
        return rebuild_locally(files, staged, config, scope, clock=clock_ms, fs=fs, rules=rules)

    return build


def _publish(
    layout: StoreLayout, config: StoreConfig, scope: RebuildScope, staged: Path, fs: Filesystem, given: _Settings
) -> Change[RebuildPlan]:
    """Return the Change of the staged files; refuses delayed queues whose delays may not be the broker's."""
    change = plan_publish(layout.root, staged, scope, fs)
    change.remarks += assumed_sizes(layout, config, given, fs, queues=scope.queues, index=scope.index)
    in_database = scope.queues and scope.topic in (None, SCHEDULE_TOPIC) and config.queues_in_database
    if in_database or change.publishes_below(layout.consumequeue / SCHEDULE_TOPIC):
        change.remarks += describe_inferred_delays(config, given)
        if DELAY_LEVELS not in given:
            change.remarks += describe_assumed_delays(layout, config, fs, built_levels(change.published, layout, fs))
    return change


def _describe(change: Change[RebuildPlan], made: RebuildReport, files: StoreReader, scope: RebuildScope) -> None:
    change.notes += made.findings
    if ends_in_damage(files, made.log_end):
        change.notes.append(f"queues and index are built up to log offset {made.log_end}: {made.stopped_by}")
    change.remarks += describe_unconfirmed(scope.confirmed or 0, made.log_end, only_confirmed=True)
    change.report = RebuildPlan(sum(change.lost.values()), made.log_end, made.stopped_by, made.record_count)


def _shown(layout: StoreLayout, settings: _Settings, fs: Filesystem, scope: RebuildScope) -> dict[str, int]:
    """Count the messages by topic that the scope's queues show beside an empty log."""
    from store.verbs.info import look_at_store

    counts: Counter[str] = Counter()
    for queue in look_at_store(layout, settings, fs).queues if scope.queues else ():
        if scope.wants((queue.topic, queue.queue_id)):
            counts[queue.topic] += queue.max_offset - queue.min_offset
    return dict(sorted(counts.items()))
