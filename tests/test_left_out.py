"""Numbers and flags that a caller, or the start of a count, leaves out: zero and off, but for those named here."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HELD_ELSEWHERE = ("store.config", "store.kernels", "store.query.spark", "rmqctl.commands", "rmqctl.__main__")
"""The settings, compiled code, a package that needs Spark, and the options of the commands."""
MOST = 10_000
"""Larger defaults are constants of the formats and of speed."""
NOT_ZERO = {
    "True": """
        store.broker_line.BrokerLine.renames_config
        store.change.change.Change.apply.keep
        store.dispatch.fan_out.FanOut.in_threads
        store.engine.open.open_store.read_only
        store.engine.services.served_store.ServedStore.put_replayed.as_stored
        store.engine.services.served_store.ServedStore.put_replayed.waits
        store.engine.services.served_store.ServedStore.put_many_replayed.as_stored
        store.engine.serving.client.StoreClient.put_replayed.as_stored
        store.engine.serving.client.StoreClient.query.verify
        store.engine.stats.broker_stats.BrokerStatsManager.note_get.of_broker
        store.engine.writable_store.WritableStore.put_replayed.as_stored
        store.engine.writable_store.WritableStore.put_replayed.waits
        store.engine.writable_store.WritableStore.put_many_replayed.as_stored
        store.files.descriptor.Entry.is_file
        store.files.lost_pages.WatchedMap.is_open
        store.formats.properties.encode_java_map.ends_with_separator
        store.opened.sizes.assumed_sizes.index
        store.opened.sizes.assumed_sizes.queues
        store.opened.staged.locked_store.take
        store.query.tables.export.Export.with_body
        store.query.tables.request.Request.with_body
        store.reading.message_store.MessageStore.query.verify
        store.reading.record_lines.RecordLines.with_body
        store.reading.stores.ReadableStore.query.verify
        store.reading.stores.ReadableStore.messages.must_exist
        store.reading.stores.LiveStore.put_replayed.as_stored
        store.structures.commitlog.commit_log.CommitLog.put_batch.is_batch
        store.structures.commitlog.message_batch.MessageRows.batch.with_body
        store.structures.commitlog.put_rules.PutRules.refuse_batch.is_batch
        store.structures.commitlog.resync.find_record.accept_v2
        store.structures.commitlog.resync.readable_behind.behind_end
        store.structures.commitlog.scan.ScanRules.accept_v2
        store.structures.commitlog.slices.walk_slice.go_on
        store.structures.consumequeue.numbering.QueueTable.assign.queued_only
        store.structures.consumequeue.out_of_order.OutOfOrder.has_unit
        store.structures.registry.Names.of_files.reads
        store.verbs.backup.bucket.BackupBucket.writing.takes
        store.verbs.backup.folder.BackupFolder.writing.takes
        store.verbs.backup.target.BackupTarget.writing.takes
        store.verbs.check.segment.SegmentRules.is_indexed
        store.verbs.find.find.Finder.use_index
        store.verbs.lag.LagReport.is_loaded
        store.verbs.rebuild.scope.RebuildScope.queues
        store.verbs.rebuild.scope.RebuildScope.index
        store.verbs.recover.lost_index.find_lost_index.to_stop
        store.verbs.recover.lost_queues.build_lost_queues.finds_absent
        store.verbs.recover.lost_queues.build_all_lost.finds_absent
        store.verbs.recover.rules.RecoveryRules.dispatch
        store.verbs.recover.rules.RecoveryRules.only_confirmed
        store.verbs.recover.rules.RecoveryRules.every_unit
        store.verbs.salvage.config_tables.ConfigTables.fit.names_new_offsets
        rmqctl.app.Application.main.standalone_mode
        rmqctl.changing.ChangeOptions.keep
        rmqctl.key_query.KeyQuery.verify
        rmqctl.messages.message_line.with_body
        rmqctl.options.Options.progress
        rmqctl.staged.locked.take
    """,
    "-1": """
        store.engine.services.transactions.Transaction.committed_log_offset
        store.engine.services.transactions.Transaction.discarded_log_offset
        store.files.bundle_files.Archive.read.size
        store.structures.commitlog.end.LogEnd.last_record
        store.structures.commitlog.put_result.PutResult.log_offset
        store.structures.commitlog.put_result.PutResult.queue_offset
        store.structures.delayoffsets.review.DelayedMessage.log_offset
        store.structures.delayoffsets.review.DelayedMessage.delivered_log_offset
        store.structures.delayoffsets.review.DelayedMessage.queue_id
        store.structures.messagedb.expect.OpenHalves.newest
        store.structures.timer.message.TimerMessage.queue_id
        store.structures.timer.message.TimerMessage.deliver_timestamp_ms
        store.structures.timer.message.TimerMessage.slot_timestamp_ms
        store.structures.timer.message.TimerMessage.magic
        store.structures.timer.message.TimerMessage.timer_log_position
        store.structures.timer.message.TimerMessage.delivered_log_offset
        store.structures.timer.message.TimerMessage.store_timestamp_ms
        store.verbs.check.seams.SegmentSummary.first
        store.verbs.check.seams.SegmentSummary.first_key
        store.verbs.info.LogInfo.min_offset
        store.verbs.info.LogInfo.end
        store.verbs.info.LogInfo.first_ms
        store.verbs.info.LogInfo.last_ms
        store.verbs.info.IndexInfo.built_to
        store.verbs.info.StoreInfo.abort_ms
        store.verbs.info.StoreInfo.checkpoint_ms
        store.verbs.lag.QueueLag.first_unconsumed_ms
        store.verbs.queue_ends.QueueEnd.extension
        store.verbs.rebuild.scope.RebuildReport.last_record
        store.verbs.recover.outcome.SimulatedStart.start_segment
        store.verbs.recover.outcome.SimulatedStart.entered_from
        store.verbs.recover.outcome.SimulatedStart.log_end
        store.verbs.recover.recover.RecoveryReport.entered_from
        store.verbs.recover.recover.RecoveryReport.queue_end_before
        store.verbs.replay.target.Answer.queue_offset
        store.verbs.salvage.salvage.SalvageReport.first_log_offset
        store.verbs.salvage.walk.Source.start
        store.verbs.stale.StaleRecord.live_log_offset
    """,
    "1": """
        store.files.readable.Stretch.salvage.item_size
        store.files.segment_folders.SegmentFolders.file_size
        store.files.store_reader.StoreReader.salvage.item_size
        store.files.store_reader.StoreReader.salvage_written.item_size
        store.formats.index_page.IndexHeader.index_count
        store.query.tables.export.check_export.store_count
        store.structures.commitlog.put_result.PutResult.message_count
        store.structures.consumequeue.out_of_order.OutOfOrder.count
        store.structures.findings.Finding.count
        store.verbs.clean.plan.plan_cleaning.passes
        store.verbs.clean.rules.judge_segments.passes
        store.verbs.doctor.Diagnosis.count
        store.verbs.salvage.placeholder.Placeholder.offset_count
        rmqctl.progress.Progress.advance.amount
    """,
    "2": """
        store.engine.ha.listener.Peer.end.how
    """,
    "8": """
        rmqctl.show.list_some.most
    """,
    "15": """
        store.engine.services.transaction_check.CheckRules.check_max
    """,
    "32": """
        store.engine.services.served_store.ServedStore.get.max_count
        store.engine.serving.client.StoreClient.get.max_count
        store.engine.serving.client.StoreClient.query.max_count
        store.engine.writable_store.WritableStore.get.max_count
        store.formats.given.check_number.bits
        store.reading.message_store.MessageStore.get.max_count
        store.reading.message_store.MessageStore.query.max_count
        store.reading.stores.ReadableStore.get.max_count
        store.reading.stores.ReadableStore.query.max_count
    """,
    "60": """
        store.errors.quoted.most
    """,
    "72": """
        store.engine.services.transaction_check.CheckRules.reserved_hours
    """,
    "80": """
        rmqctl.glossary.glossary_lines.width
        rmqctl.blocks.Look.width
    """,
    "100": """
        store.engine.ha.listener.Limits.connections
        store.engine.ha.master.MasterOptions.connections
        store.verbs.find.find.find.most
    """,
    "200": """
        rmqctl.show.printable.limit
        rmqctl.show.show_value.limit
    """,
    "1000": """
        store.structures.timer.files.TimerFiles.known_precision_ms
    """,
    "5000": """
        store.engine.live.hold.PullRequestHoldService.sweep_ms
    """,
    "6000": """
        store.engine.services.transaction_check.CheckRules.timeout_ms
    """,
}


def defaults_of(module: str) -> Iterator[tuple[str, int]]:
    """Yield the number or flag of each parameter, and of each field that a constructor has as a parameter."""
    room = import_module(module)
    classes = [one for one in vars(room).values() if inspect.isclass(one) and one.__module__ == module]
    for owner in (room, *classes):
        for each in list(vars(owner).values()):
            function = inspect.unwrap(getattr(each, "__func__", each))
            if inspect.isfunction(function) and (owner is not room or function.__module__ == module):
                name = f"{module if owner is room else f'{module}.{owner.__name__}'}.{function.__name__}"
                name = name.removesuffix(".__init__").removesuffix(".__new__")
                for one in inspect.signature(function).parameters.values():
                    if type(one.default) in (int, bool):
                        yield f"{name}.{one.name}", one.default


def modules_of(package: str) -> list[str]:
    paths = [path.relative_to(ROOT).with_suffix("") for path in sorted((ROOT / package).rglob("*.py"))]
    names = (".".join(path.parts).removesuffix(".__init__") for path in paths)
    return [name for name in names if not name.startswith(HELD_ELSEWHERE)]


@pytest.mark.parametrize("package", ["rmqctl", "store"])
def test_what_is_not_given_is_zero_or_off_but_for_a_few(package: str) -> None:
    found = dict(one for module in modules_of(package) for one in defaults_of(module))
    others = {name: default for default, names in NOT_ZERO.items() for name in names.split()}
    assert {name: repr(one) for name, one in found.items() if one and one < MOST and "._" not in name} == {
        name: one for name, one in others.items() if name.startswith(f"{package}.")
    }
