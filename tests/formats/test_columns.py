"""The numbers that kernels and Python share: rows of the array, outcomes of a scan, and reasons of damage."""

from __future__ import annotations

from store.formats.columns import COLUMN_NAMES, Column, DamageReason, ScanOutcome


def test_columns_outcomes_and_reasons_are_numbered_from_0_in_their_order() -> None:
    assert COLUMN_NAMES == (
        "position", "size", "body_position", "body_size", "topic_position", "topic_size", "properties_position",
        "properties_size", "queue_id", "queue_offset", "log_offset", "sys_flag", "store_timestamp_ms", "body_crc",
    )  # fmt: skip
    assert [int(column) for column in Column] == list(range(14))
    assert [(one.name, int(one)) for one in ScanOutcome] == [
        ("FULL", 0), ("LIMIT", 1), ("BLANK", 2), ("END", 3), ("DAMAGE", 4)
    ]  # fmt: skip
    assert [(one.name, int(one)) for one in DamageReason] == [
        (name, number)
        for number, name in enumerate((
            "NONE", "BAD_MAGIC", "BAD_SIZE", "SIZE_BEYOND_SEGMENT", "BODY_BEYOND", "NEGATIVE_TOPIC", "TOPIC_BEYOND",
            "PROPERTIES_BEYOND", "LENGTH_MISMATCH", "BAD_DELAY_LEVEL", "BAD_CRC", "BAD_SELF_OFFSET",
            "BAD_PROPERTIES_CRC", "UNREADABLE", "TORN_PROPERTIES", "V2_RECORD", "ZEROS",
        ))
    ]  # fmt: skip


def test_each_reason_has_its_own_clause() -> None:
    assert len({reason.describe() for reason in DamageReason}) == len(DamageReason)
    assert DamageReason.BAD_CRC.describe() == "bad body CRC"
