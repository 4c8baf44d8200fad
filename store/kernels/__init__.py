"""Kernels: the hot loops over a segment's bytes, compiled when the package is installed.

    from store import kernels
    count = kernels.scan_records(buffer, position, limit, accept_v2, check_crc, columns, state)

A kernel takes buffers of bytes, ints, flags, and int64 numpy arrays that it fills; it keeps nothing. Compiled kernels
run without the GIL, and check only the bounds in their arguments.

The modules beside this one are the source: Python that Cython compiles to one module, `compiled`. Without it, or with
RMQCTL_NO_EXTENSIONS=1, they run as Python, with the same results and some hundred times slower. cython.py has the names
of Cython that they use; native.py and native.h have the operations that differ between Python and C. Two parts are no
kernels. lost_pages.h is a signal handler, which must be C, for store/files/lost_pages.py. CommitGroups is a class with
state: it waits and syncs without the GIL.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

_NAME = "store.kernels.compiled"

__all__ = [
    "COMPILED",
    "CommitGroups",
    "append_message",
    "assign_queues",
    "count_leading_units",
    "dispatch_requests",
    "encode_records",
    "enter_queues",
    "find_break",
    "find_record_start",
    "find_text",
    "first_bad_body",
    "first_bad_log_offset",
    "first_bad_properties_crc",
    "first_differences",
    "first_earlier",
    "first_queue_gap",
    "first_unit_between",
    "follow_chains",
    "key_hashes",
    "order_by_queue",
    "pass_repeats",
    "put_index_entries",
    "put_message",
    "read_lines",
    "read_records",
    "rows_with_property",
    "scan_records",
    "tags_codes",
    "timer_properties",
    "write_following_units",
    "write_lines",
    "write_units",
]


def _load() -> ModuleType | None:
    """Return the compiled module with its CRC set, or None."""
    if os.environ.get("RMQCTL_NO_EXTENSIONS", "") not in ("", "0"):
        return None
    try:
        module = _import()
    except ImportError:
        return None
    from store.kernels.crc import choose_crc

    return module if choose_crc(module) else None


def _import() -> ModuleType:
    try:
        return import_module(_NAME)
    except ImportError:
        from store.kernels.shipped import load_shipped

        return load_shipped(_NAME)


compiled_module = _load()
COMPILED = compiled_module is not None

if compiled_module is None or TYPE_CHECKING:
    from store.kernels.commit_groups import CommitGroups
    from store.kernels.compare import first_differences, rows_with_property, timer_properties
    from store.kernels.dispatch import (
        count_leading_units,
        find_break,
        first_unit_between,
        order_by_queue,
        pass_repeats,
        tags_codes,
        write_following_units,
        write_units,
    )
    from store.kernels.encode import append_message, encode_records
    from store.kernels.index import follow_chains, key_hashes, put_index_entries
    from store.kernels.line_writer import write_lines
    from store.kernels.lines import read_lines
    from store.kernels.properties import find_text
    from store.kernels.put import put_message
    from store.kernels.queue_table import assign_queues, enter_queues
    from store.kernels.requests import dispatch_requests
    from store.kernels.scan import find_record_start, read_records, scan_records
    from store.kernels.verify import (
        first_bad_body,
        first_bad_log_offset,
        first_bad_properties_crc,
        first_earlier,
        first_queue_gap,
    )
else:
    globals().update({name: getattr(compiled_module, name) for name in __all__ if name != "COMPILED"})
