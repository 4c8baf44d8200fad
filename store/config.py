"""StoreConfig: RocketMQ's settings under RocketMQ's names, with the broker's defaults.

A field is the snake_case of its broker.conf name: `mapped_file_size_commit_log` is mappedFileSizeCommitLog. Each field
says what it changes here. settings_without_effect.csv lists every other name of a broker.conf; a name in neither
is refused.

Source: MessageStoreConfig, BrokerConfig, NettyServerConfig, NettyClientConfig (4.9.8, 5.3.3, 5.5.0).
"""

from __future__ import annotations

import csv
import dataclasses
import difflib
import functools
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from store.errors import BadRequest, StoreIOError, WrongKind, quoted, shown
from store.setting_values import (
    MAX_INT,
    MAX_LONG,
    SettingValue,
    check_type,
    check_value,
    convert_value,
    parse_delay_levels,
    parse_hours,
)

CONSUME_QUEUE_UNIT_SIZE = 20
BATCH_QUEUE_UNIT_SIZE = 46
ROCKSDB_STORE = "defaultRocksDB"
LOG_PATHS = ("storePathCommitLog", "storePathDLedgerCommitLog")
NAMED_QUEUES = {"enableMultiDispatch": True, "enableLmq": True}
"""The settings of a broker with light queues."""
NAMED_QUEUES_REFUSED = "CombineConsumeQueueStore rocksdbCQ is not ready for LMQ"
"""The error of a 5.5 broker that is to keep light queues in a RocksDB, and does not load one."""
DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_INDEX_HEADER_SIZE, _INDEX_SLOT_SIZE, _INDEX_ENTRY_SIZE = 40, 4, 20

T = TypeVar("T")


def _setting(default: T, effect: str, *, least: int = 0, most: int = MAX_INT, choices: tuple[str, ...] = ()) -> T:
    """Return a field of StoreConfig; a number is in least..most, a text with `choices` is one of them."""
    rules = {"effect": effect, "least": least, "most": most, "choices": choices}
    return dataclasses.field(default=default, metadata=rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """One store's settings. Immutable: `with_settings` gives a changed copy."""

    # Folders; None means the default place under the root.
    store_path_root_dir: str | None = _setting(None, "the store's folder where none is given")
    store_path_commit_log: str | None = _setting(None, "folder of the segments; several with commas")
    read_only_commit_log_store_paths: str | None = _setting(
        None, "more folders of segments, in which none is created; needs several in storePathCommitLog"
    )

    store_type: str = _setting("default", "5.x: with defaultRocksDB consume queues are in a RocksDB")

    # DLedger mode; a log of entries is found without them.
    enable_d_leger_commit_log: bool = _setting(True, "false: the plain log is read where DLedger's is there too")
    store_path_d_ledger_commit_log: str | None = _setting(
        None, "folder of DLedger's entries; several with commas; else dledger-ID/data"
    )
    d_leger_self_id: str | None = _setting(None, "the member whose log is read, where several are there")

    # File sizes in bytes, index geometry in entries.
    mapped_file_size_commit_log: int = _setting(1 << 30, "bytes of a segment", least=1)
    mapped_file_size_consume_queue: int = _setting(
        300_000 * CONSUME_QUEUE_UNIT_SIZE, "bytes of a consume queue file, rounded up to whole entries", least=1
    )
    mapper_file_size_batch_consume_queue: int = _setting(
        300_000 * BATCH_QUEUE_UNIT_SIZE, "bytes of a file of a batch queue (5.x)", least=BATCH_QUEUE_UNIT_SIZE
    )
    mapped_file_size_timer_log: int = _setting(104_857_600, "5.x: bytes of a file in timerlog/", least=1)
    timer_precision_ms: int = _setting(1000, "5.x: milliseconds of a slot of timerwheel", least=1)
    enable_consume_queue_ext: bool = _setting(False, "queue entries keep tags and times in consumequeue_ext/")
    enable_calc_filter_bit_map: bool = _setting(
        False, "entries in consumequeue_ext/ get a bit map of the groups whose SQL filter matches"
    )
    max_error_rate_of_bloom_filter: int = _setting(20, "% of wrong hits in bit maps; sizes them", least=1, most=99)
    expect_consumer_num_use_filter: int = _setting(32, "groups in a bit map; sizes it", least=1)
    mapped_file_size_consume_queue_ext: int = _setting(48 << 20, "bytes of a consumequeue_ext file", least=1)
    max_hash_slot_num: int = _setting(5_000_000, "slots of an index file", least=1)
    max_index_num: int = _setting(20_000_000, "entries of an index file", least=2)

    # What a put may be.
    max_message_size: int = _setting(4 << 20, "bytes of the largest body")
    broker_ip1: str = _setting("127.0.0.1", "address in the store host of records that are put")
    listen_port: int = _setting(10911, "port in the store host of records that are put", most=65535)
    message_delay_level: str = _setting(DEFAULT_DELAY_LEVELS, "the delay of each level")
    message_index_enable: bool = _setting(True, "keys are indexed; recovery trusts the index's time")
    index_file_write_enable: bool = _setting(True, "5.5: keys get entries in index files, not in rocksdbstore alone")
    index_rocks_db_enable: bool | None = _setting(
        None, "5.5: keys get entries in rocksdbstore; by default where it has some"
    )
    trans_rocks_db_enable: bool | None = _setting(
        None, "5.5: half messages get entries in rocksdbstore; by default where it has some"
    )
    timer_rocks_db_enable: bool | None = _setting(
        None, "5.5: timers fire by entries in rocksdbstore; by default where it has some"
    )
    enable_accelerated_recovery: bool = _setting(
        False, "5.5: after a crash a recovery begins at the checkpoint's log offset, inside of a segment"
    )
    message_index_safe: bool = _setting(False, "recovery starts where the index is complete too")
    check_crc_on_recover: bool = _setting(True, "recovery checks the bodies' CRC")
    commit_log_recover_max_num: int = _setting(
        10, "5.5: the most segments that a recovery goes back; 0 and less mean 10", least=-MAX_INT
    )
    timer_wheel_snapshot_flush: bool | None = _setting(
        None, "5.5: a start reads the newest timerwheel.<n>; by default the wheel that leads farther into timerlog"
    )
    append_topic_for_timer_delete_key: bool | None = _setting(
        None, "a timer's delete has topic+key, not the key alone; the default depends on the version"
    )
    use_separate_store_path_for_rocksdb_cq: bool | None = _setting(
        None, "5.5: queues in a RocksDB are in consumequeue_rocksdb; by default where they are found"
    )
    rocksdb_cq_double_write_enable: bool | None = _setting(
        None, "5.5: queues are in files and in a RocksDB; by default where both are found"
    )
    combine_cq_loading_cq_types: str = _setting("default;defaultRocksDB", "5.5: the kinds of queues written twice")
    combine_assign_offset_cq_type: str = _setting("default", "5.5: of queues written twice, those that number messages")
    combine_cq_prefer_cq_type: str = _setting("default", "5.5: of queues written twice, those that consumers read")
    combine_cq_max_extra_search_commit_log_files: int = _setting(
        3, "5.5: of queues written twice, segments that a recovery goes back for the other kind", least=-MAX_INT
    )
    combine_cq_use_rocksdb_for_lmq: bool = _setting(False, "5.5: of queues written twice, LMQ are in the RocksDB alone")
    enabled_append_prop_crc: bool = _setting(False, "5.x: a record ends with a CRC of all its other bytes")
    enable_lmq: bool = _setting(False, "LMQ (%LMQ%) get entries in queue 0")
    enable_multi_dispatch: bool = _setting(False, "a message gets an entry in each queue of its property")
    broker_role: str = _setting("ASYNC_MASTER", "SLAVE refuses puts", choices=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"))
    slave_timeout: int = _setting(3000, "ms that a put of a SYNC_MASTER waits for a slave")
    ha_slave_fallbehind_max: int = _setting(
        256 << 20, "lag in bytes after which a slave counts as not available", least=1
    )
    ha_transfer_batch_size: int = _setting(32 << 10, "most bytes of the log in one frame to a slave", least=1)
    ha_send_heartbeat_interval: int = _setting(5000, "ms without data after which a slave gets a heartbeat")
    ha_housekeeping_interval: int = _setting(20_000, "ms without a report after which a slave is dropped", least=1)
    in_sync_replicas: int = _setting(1, "5.x: copies, the master's own too, that a put of a SYNC_MASTER waits for")
    os_page_cache_busy_time_out_mills: int = _setting(
        1000, "ms that a put may hold the log before others are refused", most=MAX_LONG
    )

    # Flushing; intervals in ms.
    flush_disk_type: str = _setting(
        "ASYNC_FLUSH", "SYNC_FLUSH answers a put when it is durable", choices=("ASYNC_FLUSH", "SYNC_FLUSH")
    )
    sync_flush_timeout: int = _setting(5000, "ms that a put waits for a synchronous flush")
    flush_interval_commit_log: int = _setting(500, "ms between flushes of the log")
    flush_commit_log_timed: bool = _setting(True, "flushes come by time only; else a put wakes them")
    flush_commit_log_least_pages: int = _setting(4, "pages that a flush of the log waits for")
    flush_commit_log_thorough_interval: int = _setting(10_000, "ms between flushes of whatever waits")
    commit_interval_commit_log: int = _setting(200, "ms between commits of the transient pool")
    commit_commit_log_least_pages: int = _setting(4, "pages that a commit waits for")
    commit_commit_log_thorough_interval: int = _setting(200, "ms between commits of whatever waits")
    flush_interval_consume_queue: int = _setting(1000, "ms between flushes of the queues")
    flush_consume_queue_least_pages: int = _setting(2, "pages that a flush of a queue waits for")
    flush_consume_queue_thorough_interval: int = _setting(60_000, "ms between flushes of whatever waits in queues")
    transient_store_pool_enable: bool = _setting(False, "puts go through the transient pool (ASYNC_FLUSH, no SLAVE)")
    transient_store_pool_size: int = _setting(5, "number of buffers of the transient pool", least=1)
    warm_maped_file_enable: bool = _setting(False, "new segments are written with zeros before use")

    # Transactions of a served store; None: the line's own value.
    transaction_time_out: int = _setting(6000, "ms without an answer after which a producer is checked", most=MAX_LONG)
    transaction_check_max: int = _setting(15, "checks after which a half message is given up")
    transaction_check_interval: int | None = _setting(
        None, "ms between check passes; 60000, in 5.x 30000", least=1, most=MAX_LONG
    )
    transaction_op_msg_max_size: int = _setting(4096, "5.x: characters after which an op record is put", least=1)
    transaction_op_batch_interval: int = _setting(3000, "5.x: ms between two op records", least=1)
    transaction_metric_flush_interval: int = _setting(3000, "5.x: ms between writes of transactionMetrics", least=1)

    # Reading.
    max_transfer_bytes_on_message_in_memory: int = _setting(262_144, "bytes of one get from the page cache")
    max_transfer_count_on_message_in_memory: int = _setting(32, "messages of one get from the page cache")
    max_transfer_bytes_on_message_in_disk: int = _setting(65_536, "bytes of one get from the disk")
    max_transfer_count_on_message_in_disk: int = _setting(8, "messages of one get from the disk")
    access_message_in_memory_max_ratio: int = _setting(
        40, "% of memory that the newest messages are taken to be in", most=100
    )
    filter_support_retry: bool = _setting(False, "%RETRY% topics have the SQL filter of the message's own topic")
    max_msgs_num_batch: int = _setting(64, "messages of one query by key")

    # Cleaning; file_reserved_time in hours, ratios in percent.
    delete_when: str = _setting("04", "hours of the day in which expired segments go")
    file_reserved_time: int = _setting(72, "hours that a segment is kept")
    disk_max_used_space_ratio: int = _setting(
        75, "% of the partition above which expired segments go; 10 to 95, others are taken as those", least=~MAX_INT
    )
    disk_space_warning_level_ratio: int = _setting(90, "% of the partition above which puts are refused", most=100)
    disk_space_clean_forcibly_ratio: int = _setting(
        85, "% of the partition above which segments go before they expire", most=100
    )
    clean_file_forcibly_enable: bool = _setting(True, "a full partition lets segments go before they expire")
    delete_file_batch_max: int = _setting(10, "segments of one cleaning pass", least=1)
    clean_resource_interval: int = _setting(10_000, "ms between cleaning passes of a served store", least=1)
    delete_commit_log_files_interval: int = _setting(100, "ms between two segments of a pass of a served store")
    delete_consume_queue_files_interval: int = _setting(100, "ms after each queue of a pass of a served store")
    correct_logic_min_offset_force_interval: int = _setting(
        300_000, "ms between two searches of a batch queue (5.x) for expired entries, in a served store"
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            name, rules, value = _camel(field.name), field.metadata, getattr(self, field.name)
            if value is not field.default:
                value = check_type(name, _type_name(field), value)
                object.__setattr__(self, field.name, value)
            check_value(name, value, rules["choices"], rules["least"], rules["most"])
        parse_delay_levels(self.message_delay_level)
        parse_hours(self.delete_when)
        index_size = _INDEX_SLOT_SIZE * self.max_hash_slot_num + _INDEX_ENTRY_SIZE * self.max_index_num
        if _INDEX_HEADER_SIZE + index_size > MAX_INT:
            raise BadRequest(
                f"maxHashSlotNum {self.max_hash_slot_num} and maxIndexNum {self.max_index_num} make an index file of "
                f"{_INDEX_HEADER_SIZE + index_size} bytes, the limit is {MAX_INT}"
            )
        # The broker's getter rounds a queue file up to whole units.
        rounded = -(-self.mapped_file_size_consume_queue // CONSUME_QUEUE_UNIT_SIZE) * CONSUME_QUEUE_UNIT_SIZE
        object.__setattr__(self, "mapped_file_size_consume_queue", rounded)

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        """Delay of level 1, 2, 3 … in ms (ScheduleMessageService.parseDelayLevel, 4.9.8)."""
        return parse_delay_levels(self.message_delay_level)

    @property
    def writes_index_files(self) -> bool:
        """Whether keys get entries in index files."""
        return self.message_index_enable and self.index_file_write_enable

    @property
    def most_recovered_segments(self) -> int:
        """The most segments that a recovery goes back (CommitLog, 5.5.0)."""
        return self.commit_log_recover_max_num if self.commit_log_recover_max_num > 0 else 10

    @property
    def has_named_queues(self) -> bool:
        """Whether a 5.3 broker gives units to the light queues that a message names."""
        return self.enable_lmq

    @property
    def has_named_queues_in_database(self) -> bool:
        """Whether, of queues written twice, the light queues are in the RocksDB alone."""
        return self.combine_cq_use_rocksdb_for_lmq and bool(self.rocksdb_cq_double_write_enable)

    @property
    def queues_in_database(self) -> bool:
        """Whether consume queues are in a RocksDB; the name is compared ignoring case."""
        return self.store_type.lower() == ROCKSDB_STORE.lower()

    @property
    def starts_database(self) -> bool:
        """Whether a start creates the RocksDB with consume queues if it is lost."""
        return self.queues_in_database or bool(self.rocksdb_cq_double_write_enable)

    @property
    def puts_wait_for_disk(self) -> bool:
        """Whether a put waits until its message is durable."""
        return self.flush_disk_type == "SYNC_FLUSH"

    @property
    def uses_transient_pool(self) -> bool:
        """Whether puts use the transient pool; only an asynchronously flushing master does."""
        return self.transient_store_pool_enable and not self.puts_wait_for_disk and self.broker_role != "SLAVE"

    def changed_settings(self, given: Container[str] = ()) -> dict[str, object]:
        """Return the settings named in `given` and those not at their default, by RocketMQ name."""
        values = {name: (getattr(self, field), _DEFAULTS[field]) for name, field in _FIELDS.items()}
        return {name: value for name, (value, default) in values.items() if name in given or value != default}

    def with_settings(self, settings: Mapping[str, object]) -> StoreConfig:
        """Return a copy with settings by RocketMQ name (`mappedFileSizeCommitLog`); text is converted."""
        if not settings:
            return self
        values: dict[str, Any] = {**check_settings(settings)}
        return dataclasses.replace(self, **{_FIELDS[name]: one for name, one in values.items() if name in _FIELDS})


# The table of all settings.


class Setting(NamedTuple):
    """One name of a broker.conf."""

    name: str
    type: str
    """bool, int, float or str."""
    default: str | int | float | bool | None
    effect: str
    """The effect on this store; empty for a setting without effect."""
    owner: str
    """The broker's class with this setting."""
    instead: str = ""
    """The fixed behaviour in place of a setting without effect, if it is not obvious."""


@functools.cache
def all_settings() -> dict[str, Setting]:
    """Return every known setting by its name; those with an effect first."""
    fields = dataclasses.fields(StoreConfig)
    known = [
        Setting(_camel(f.name), _type_name(f), _DEFAULTS[f.name], f.metadata["effect"], _owner(f.name)) for f in fields
    ]
    with _WITHOUT_EFFECT.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            default = convert_value(row["name"], row["type"], row["default"]) if row["default"] else None
            known.append(Setting(row["name"], row["type"], default, "", row["owner"], row["instead"] or ""))
    return {setting.name: setting for setting in known}


def _owner(field_name: str) -> str:
    """Return the broker's class with the setting."""
    if field_name == "listen_port":
        return "NettyServerConfig"
    is_brokers = field_name.startswith("transaction_") or field_name in _OF_BROKER_CONFIG
    return "BrokerConfig" if is_brokers else "MessageStoreConfig"


_OF_BROKER_CONFIG = {
    "enable_calc_filter_bit_map", "max_error_rate_of_bloom_filter", "expect_consumer_num_use_filter",
    "filter_support_retry", "broker_ip1",
}  # fmt: skip
_DEFAULTS: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(StoreConfig)}


def _type_name(field: dataclasses.Field[Any]) -> str:
    return str(field.type).split()[0]


def has_effect(name: str) -> bool:
    """Return whether a known setting changes anything here."""
    return bool(all_settings()[name].effect)


MOST_CONF_BYTES = 1 << 20
_WITHOUT_EFFECT = Path(__file__).with_name("settings_without_effect.csv")


def check_settings(settings: Mapping[str, object], source: str | Path | None = None) -> dict[str, SettingValue]:
    """Convert the values; BadRequest with `source` for an unknown name or a value of a wrong type."""
    if not isinstance(settings, Mapping):
        raise WrongKind(f"settings is not a Mapping, but {type(settings).__name__}")
    types = {_camel(f.name): _type_name(f) for f in dataclasses.fields(StoreConfig)}
    if not settings.keys() <= types.keys():
        types = {name: setting.type for name, setting in all_settings().items()}
    for name in settings:
        if name not in types:
            raise _unknown(name, source)
    return {
        name: None if one is None and all_settings()[name].default is None else convert_value(name, types[name], one)
        for name, one in settings.items()
    }


def _unknown(name: object, source: str | Path | None) -> BadRequest:
    if not isinstance(name, str):
        return WrongKind(f"the name of a setting is not text: {shown(name)}", file=source)
    lower = {known.lower(): known for known in all_settings()}
    nearest = next(iter(difflib.get_close_matches(name.lower(), lower)), None)
    hint, code = (f"did you mean {lower[nearest]}?", None) if nearest else (None, "unknown-setting")
    as_given = name if name.isidentifier() and quoted(name) == repr(name) else quoted(name)
    return BadRequest(f"RocketMQ has no setting {as_given}", file=source, hint=hint, code=code)


def read_broker_conf(path: str | Path) -> dict[str, str]:
    """Read a broker.conf, a Java properties file; BadRequest for unknown names and invalid values."""
    import javaproperties

    try:
        if Path(path).stat().st_size > MOST_CONF_BYTES:
            raise BadRequest(f"a broker configuration has no more than {MOST_CONF_BYTES} bytes")
        with Path(path).open("rb") as stream:
            pairs: dict[str, str] = javaproperties.load(stream)
        StoreConfig().with_settings(pairs)
    except OSError as error:
        raise StoreIOError.from_os(error, path, "read the broker configuration") from error
    except BadRequest as error:
        raise BadRequest(error.reason, file=path, hint=error.hint, code=error.code) from None
    except ValueError as error:
        raise BadRequest(f"not a Java properties file: {error}", file=path) from None
    return {name: value.strip() for name, value in pairs.items()}


@functools.cache
def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


_ACRONYMS = {"crc": "CRC", "db": "DB", "cq": "CQ", "ip1": "IP1"}
_FIELDS = {_camel(field.name): field.name for field in dataclasses.fields(StoreConfig)}
