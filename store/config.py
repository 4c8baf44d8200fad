"""StoreConfig: RocketMQ's settings under RocketMQ's names, with the broker's defaults.

A field is the snake_case of its broker.conf name: `mapped_file_size_commit_log` is mappedFileSizeCommitLog.
Sizes are bytes, times are in the unit that the broker uses (given by the comment of the group).

Source: MessageStoreConfig (4.9.8).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from store.errors import BadRequest, StoreIOError

CONSUME_QUEUE_UNIT_SIZE = 20
DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_DELAY_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLine:
    """One line of broker releases: each field is a rule in which the lines differ."""

    name: str
    accepts_v2: bool
    """Records of version 2, whose topic has a 2-byte length, are records."""
    skips_folders: bool
    """A folder among segments, or a queue folder without a number for a name, is passed over, not refused."""
    drops_empty_last_file: bool
    """A last file of length zero is deleted at start, not refused."""
    recovers_with_delay_levels: bool
    """Delayed messages found in recovery get their deliver time in the queue unit, not the hash of their tags."""
    starts_at_queue_end: bool
    """A normal recovery starts in the newest segment that queues reach into, not in the third last."""
    searches_lower_bound: bool
    """A search by time gives the first message at or after the time, not the nearest in one file."""
    renames_config: bool
    """A table under config/ is written to .tmp and renamed; otherwise the file is overwritten."""

    def __str__(self) -> str:
        return self.name


LINE_4_9 = BrokerLine(
    name="4.9",
    accepts_v2=False,
    skips_folders=False,
    drops_empty_last_file=False,
    recovers_with_delay_levels=False,
    starts_at_queue_end=False,
    searches_lower_bound=False,
    renames_config=True,
)
LINE_5_3 = BrokerLine(
    name="5.3",
    accepts_v2=True,
    skips_folders=True,
    drops_empty_last_file=True,
    recovers_with_delay_levels=True,
    starts_at_queue_end=True,
    searches_lower_bound=True,
    renames_config=False,
)
BROKER_LINES = {line.name: line for line in (LINE_4_9, LINE_5_3)}


def broker_line(name: str) -> BrokerLine:
    """Finds the line by its name; BadRequest for another name."""
    line = BROKER_LINES.get(name)
    if line is None:
        raise BadRequest(f"the broker line is {' or '.join(BROKER_LINES)}, not {name}")
    return line


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """One store's settings. Immutable: `with_settings` gives a changed copy."""

    # Folders; None means the default place under the root.
    store_path_root_dir: str | None = None
    store_path_commit_log: str | None = None

    # File sizes in bytes, index geometry in entries.
    mapped_file_size_commit_log: int = 1024 * 1024 * 1024
    mapped_file_size_consume_queue: int = 300_000 * CONSUME_QUEUE_UNIT_SIZE
    enable_consume_queue_ext: bool = False
    mapped_file_size_consume_queue_ext: int = 48 * 1024 * 1024
    bit_map_length_consume_queue_ext: int = 64
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000

    # What a put may be.
    max_message_size: int = 4 * 1024 * 1024
    message_delay_level: str = DEFAULT_DELAY_LEVELS
    message_index_enable: bool = True
    message_index_safe: bool = False
    check_crc_on_recover: bool = True
    duplication_enable: bool = False
    enable_lmq: bool = False
    enable_multi_dispatch: bool = False
    broker_role: str = "ASYNC_MASTER"

    # Flushing; intervals in ms.
    flush_disk_type: str = "ASYNC_FLUSH"
    sync_flush_timeout: int = 5000
    flush_interval_commit_log: int = 500
    flush_commit_log_timed: bool = True
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    commit_interval_commit_log: int = 200
    commit_commit_log_least_pages: int = 4
    commit_commit_log_thorough_interval: int = 200
    flush_interval_consume_queue: int = 1000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60_000
    transient_store_pool_enable: bool = False
    transient_store_pool_size: int = 5
    warm_maped_file_enable: bool = False

    # Reading.
    max_transfer_bytes_on_message_in_memory: int = 262_144
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 65_536
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40
    default_query_max_num: int = 32
    max_msgs_num_batch: int = 64
    offset_check_in_slave: bool = False
    os_page_cache_busy_time_out_mills: int = 1000

    # Cleaning; file_reserved_time in hours, intervals in ms, ratios in percent.
    delete_when: str = "04"
    file_reserved_time: int = 72
    delete_commit_log_files_interval: int = 100
    destroy_maped_file_interval_forcibly: int = 120_000
    disk_max_used_space_ratio: int = 75
    disk_space_warning_level_ratio: int = 90
    disk_space_clean_forcibly_ratio: int = 85
    clean_file_forcibly_enable: bool = True
    delete_file_batch_max: int = 10

    def __post_init__(self) -> None:
        sizes = ("mapped_file_size_commit_log", "mapped_file_size_consume_queue", "max_hash_slot_num", "max_index_num")
        for name in sizes:
            if getattr(self, name) <= 0:
                raise BadRequest(f"{_camel(name)} must be positive, not {getattr(self, name)}")
        if self.flush_disk_type not in ("ASYNC_FLUSH", "SYNC_FLUSH"):
            raise BadRequest(f"flushDiskType must be ASYNC_FLUSH or SYNC_FLUSH, not {self.flush_disk_type}")
        # The broker's getter rounds a queue file up to whole units.
        unit = CONSUME_QUEUE_UNIT_SIZE
        rounded = -(-self.mapped_file_size_consume_queue // unit) * unit
        object.__setattr__(self, "mapped_file_size_consume_queue", rounded)

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        """Delay of level 1, 2, 3 … in ms (ScheduleMessageService.parseDelayLevel, 4.9.8)."""
        return parse_delay_levels(self.message_delay_level)

    @property
    def uses_transient_pool(self) -> bool:
        """The broker lends write buffers only to an asynchronously flushing master."""
        return (
            self.transient_store_pool_enable and self.flush_disk_type == "ASYNC_FLUSH" and self.broker_role != "SLAVE"
        )

    def with_settings(self, settings: Mapping[str, Any]) -> StoreConfig:
        """A copy with settings given by RocketMQ name (`mappedFileSizeCommitLog`); text becomes the field's type."""
        known = {_camel(f.name): f for f in dataclasses.fields(self)}
        changes: dict[str, Any] = {}
        for name, value in settings.items():
            field = known.get(name)
            if field is None:
                raise BadRequest(f"unknown setting {name}", hint="use a name of RocketMQ's MessageStoreConfig")
            changes[field.name] = _convert(name, str(field.type), value)
        return dataclasses.replace(self, **changes)

    @classmethod
    def names(cls) -> Iterable[str]:
        """The RocketMQ names of all settings that are understood."""
        return [_camel(f.name) for f in dataclasses.fields(cls)]


def read_broker_conf(path: str | Path) -> dict[str, str]:
    """The settings of a broker.conf (a Java properties file) that a store understands; others belong to the broker."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise StoreIOError.from_os(error, path, "read the broker configuration") from error
    known = set(StoreConfig.names())
    pairs = (re.split(r"\s*[=:]\s*", line.strip(), maxsplit=1) for line in text.splitlines())
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2 and pair[0] in known}


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """`1s 5s 2h` as milliseconds (units s, m, h, d)."""
    levels = []
    for word in text.split():
        unit = _DELAY_UNITS_MS.get(word[-1])
        if unit is None or not word[:-1].isdigit():
            raise BadRequest(f"messageDelayLevel holds {word!r}, which is not a number with s, m, h or d")
        levels.append(int(word[:-1]) * unit)
    return tuple(levels)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


_ACRONYMS = {"crc": "CRC"}


def _convert(name: str, type_name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        if type_name == "bool":
            return {"true": True, "false": False}[value.strip().lower()]
        if type_name == "int":
            return int(value.strip())
    except (KeyError, ValueError):
        wanted = "true or false" if type_name == "bool" else "a whole number"
        raise BadRequest(f"setting {name} needs {wanted}, not {value!r}") from None
    return value.strip()
