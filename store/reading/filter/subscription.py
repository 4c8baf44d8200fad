"""SubscriptionFilter: the messages that a consumer group with an SQL subscription gets from a broker.

On the queue unit, the first true line decides:

    no filter of the group, no expression that compiles, no bits      may match
    no extension unit, or its store time not after the bornTime        may match
    no bit map, or bits of another Bloom filter                        may match
    else                                                               all bits of the group are in the bit map

On the record: without an expression that compiles, every record matches; else if the expression is TRUE for its
properties.
A topic %RETRY%group has the filter of the message's own topic if filterSupportRetry is on, else none.
BitMaps computes the bit maps of extension units: for each record the bits of every filter that matches its properties.

Source: ExpressionMessageFilter, ExpressionForRetryMessageFilter, CommitLogDispatcherCalcBitMap (4.9.8, 5.3.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from store.config import StoreConfig
from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.formats.bloom import BloomFilter, has_bits
from store.formats.message import StoredMessage
from store.formats.queue_unit import ExtUnit
from store.formats.run import Run
from store.formats.topics import RETRY_PREFIX
from store.layout import StoreLayout
from store.opened.opened_store import OpenedStore
from store.reading.filter.sql92 import SqlFilter, compile_sql
from store.structures.tables.consumer_filters import ConsumerFilter, ConsumerFilterTable

RETRY_TOPIC = "RETRY_TOPIC"
TAG_TYPES = ("", "TAG")


class SubscriptionFilter:
    """The filter of `group` for `topic`, from a broker's table of filters."""

    def __init__(self, filters: ConsumerFilterTable, topic: str, group: str, *, supports_retry: bool = False) -> None:
        self._filters = filters
        self._group = group
        self._is_retry = supports_retry and topic.startswith(RETRY_PREFIX)
        self.subscription = filters.get(topic, group)
        """The group's subscription; None without one."""
        self._compiled = compile_subscription(self.subscription)

    @property
    def expression(self) -> str | None:
        """The evaluated expression; None if every message matches."""
        return self._compiled.text if self._compiled is not None else None

    def matches_tags_code(self, tags_code: int, ext: ExtUnit | None = None) -> bool:
        """Return whether the record must be read (isMatchedByConsumeQueue)."""
        own, bloom = self.subscription, self._filters.bloom
        if own is None or self._compiled is None or not own.bit_count:
            return True
        if ext is None or ext.store_timestamp_ms <= own.born_time_ms:
            return True
        if not own.fits(bloom) or len(ext.bit_map) * 8 != own.bit_count:
            return True
        return has_bits(ext.bit_map, own.positions)

    def matches(self, message: StoredMessage) -> bool:
        """Return whether the group gets the message (isMatchedByCommitLog)."""
        if self._compiled is None and not self._is_retry:
            return True
        return self.matches_properties(message.properties)

    def matches_properties(self, properties: Mapping[str, str]) -> bool:
        """Return whether the group gets a message with these properties."""
        compiled = self._compiled
        if self._is_retry:
            compiled = compile_subscription(self._filters.get(properties.get(RETRY_TOPIC, ""), self._group))
        return compiled is None or compiled.matches_properties(properties)


def compile_subscription(subscription: ConsumerFilter | None) -> SqlFilter | None:
    """Return the compiled expression; None without one, or for one that a broker can't compile either."""
    if subscription is None or not subscription.expression or subscription.expression_type in TAG_TYPES:
        return None
    try:
        return compile_sql(subscription.expression)
    except BadRequest:
        return None


def load_filters(layout: StoreLayout, config: StoreConfig, fs: Filesystem, now_ms: int) -> ConsumerFilterTable:
    """Return the filters that a broker with these settings loads."""
    bloom = BloomFilter.sized(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)
    filters = ConsumerFilterTable(bloom)
    filters.load(layout.config, fs, now_ms)
    return filters


def use_bit_maps(opened: OpenedStore) -> None:
    """Let dispatch of `opened` calculate bit maps, if its settings require them."""
    opened.queues.bit_maps = make_bit_maps(opened.layout, opened.config, opened.fs, opened.clock())


def make_bit_maps(layout: StoreLayout, config: StoreConfig, fs: Filesystem, now_ms: int) -> BitMaps | None:
    """Return the BitMaps of a store's filters; None if enableCalcFilterBitMap or the extension is off."""
    if not (config.enable_calc_filter_bit_map and config.enable_consume_queue_ext):
        return None
    return BitMaps(load_filters(layout, config, fs, now_ms))


class BitMaps:
    """Calculates the bit maps of records, as the broker's first dispatcher does."""

    def __init__(self, filters: ConsumerFilterTable) -> None:
        self.filters = filters
        """The filters whose bits are set."""

    def __call__(self, run: Run, rows: Sequence[int], topic: str) -> list[bytes] | None:
        """Return a bit map for each row; None if the topic has no filter."""
        compiled = [(one, compile_subscription(one)) for one in self.filters.of_topic(topic)]
        if not compiled:
            return None
        found = []
        for row in rows:
            properties = run.properties(row)
            bits = {
                bit
                for one, expression in compiled
                if expression is not None and expression.matches_properties(properties)
                for bit in one.positions
            }
            found.append(self.filters.bloom.bit_map(bits))
        return found
