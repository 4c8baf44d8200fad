"""The timer's three files (5.x): wheel, log and checkpoint.

wheel   timerwheel, 1,209,600 slots of 32 bytes: two weeks of seconds

    0      8           16         24      28
    | time | first pos | last pos | count | magic |        time is in units of the precision; pos -1: no unit

log     timerlog/<20 digits>, units of 52 bytes; each has the position of the previous one in its slot

    0      4      12      16           24      28           36     40           44
    | size | prev | magic | write time | delay | log offset | size | topic hash | reserved |

    magic: 1 plain, |2 rolled, |4 deletes. The slot's time is write time plus delay. A file ends with a blank of 16
    bytes: space left, 0, and the blank magic of the commit log.

check   config/timercheck, 4096 bytes that begin with longs

    0           8             16             24             32            40          48
    | read time | flushed pos | queue offset | queue offset | state       | timestamp | counter |
    |           |             |              | of master    | version     |           |         |

Source: TimerWheel, Slot, TimerLog, TimerCheckpoint (5.3.3).
"""

from __future__ import annotations

import struct

from store.formats.message import BLANK_MAGIC_SIGNED

TIMERS_ON = "timerWheelEnable"
"""The setting of a broker that accepts messages with a delivery time."""
TIMELINE_ON = "timerRocksDBEnable"
"""The setting of a 5.5 broker that fires timers from a database, and not from the wheel."""
WHEEL_SLOT = struct.Struct(">qqqii")
WHEEL_SLOT_NAMES = ("slot_time", "first_position", "last_position", "count", "magic")
WHEEL_SLOT_COUNT = 2 * 7 * 86_400
WHEEL_SIZE = WHEEL_SLOT_COUNT * WHEEL_SLOT.size

TIMER_UNIT = struct.Struct(">iqiqiqiiq")
TIMER_UNIT_NAMES = (
    "unit_size",
    "previous_position",
    "magic",
    "write_time_ms",
    "delay_ms",
    "log_offset",
    "size",
    "topic_hash",
    "reserved",
)
TIMER_BLANK = struct.Struct(">iqi")
TIMER_BLANK_MAGIC = BLANK_MAGIC_SIGNED
TIMER_MAGIC_MOST = 15

TIMER_CHECK = struct.Struct(">qqqqqqq")
TIMER_CHECK_NAMES = (
    "last_read_ms",
    "flushed_position",
    "timer_queue_offset",
    "master_timer_queue_offset",
    "state_version",
    "version_timestamp_ms",
    "version_counter",
)
assert (WHEEL_SLOT.size, WHEEL_SIZE, TIMER_UNIT.size, TIMER_CHECK.size) == (32, 38_707_200, 52, 56)
