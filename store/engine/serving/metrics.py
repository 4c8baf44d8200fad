"""MetricsServer: a served store's counters as OpenMetrics, for Prometheus and similar programs.

The values are read at each request; prometheus_client writes the page. Besides the collector's metrics it has those of
the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Self

from store.engine.ha.link import Address
from store.engine.ha.listener import Limits, Listener, Peer
from store.engine.live.running_flags import RunningFlag
from store.engine.services.served_store import ServedState, ServedStore
from store.engine.stats.latency import CLASS_BOUNDS_MS

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

    from store.engine.ha.receive import CopiedLog, Receiver

PATH = "/metrics"
PREFIX = "rocketmq_store_"


class StoreCollector:
    """The metrics of one store."""

    def __init__(self, store: ServedStore) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, with its values of this moment."""
        yield from self._counters()
        yield from self._by_topic()
        yield self._latency()
        yield from self._gauges()
        state = self._store.state()
        yield from _replication(state)
        yield from _deliveries(state)
        yield from _connections(state)
        failed = dict.fromkeys(state.failed_services, 1.0)
        yield _labelled("service_failed", "Services that have failed.", "service", failed)
        retrying = dict.fromkeys(state.retrying_services, 1.0)
        yield _labelled("service_retrying", "Services whose last round will be tried again.", "service", retrying)

    def _counters(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import CounterMetricFamily

        stats = self._store.statistics
        yield CounterMetricFamily(f"{PREFIX}failed_puts", "Puts that stored nothing.", value=stats.failed_puts)
        yield CounterMetricFamily(
            f"{PREFIX}transferred_messages", "Messages handed out by gets.", value=stats.transferred_messages
        )
        gets = CounterMetricFamily(f"{PREFIX}gets", "Gets, by their outcome.", labels=["outcome"])
        gets.add_metric(["found"], stats.found_gets)
        gets.add_metric(["missed"], stats.missed_gets)
        yield gets

    def _by_topic(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import CounterMetricFamily

        stats = self._store.statistics
        messages = CounterMetricFamily(f"{PREFIX}put_messages", "Messages put, by stored topic.", labels=["topic"])
        size = CounterMetricFamily(f"{PREFIX}put_bytes", "Bytes of records put, by stored topic.", labels=["topic"])
        for topic, count in stats.topic_messages.copy().items():
            messages.add_metric([topic], count)
            size.add_metric([topic], stats.topic_bytes[topic])
        yield messages
        yield size

    def _latency(self) -> Metric:
        from prometheus_client.metrics_core import HistogramMetricFamily

        latency, passed = self._store.statistics.latency, 0
        buckets: list[tuple[str, float]] = []
        for bound_ms, count in zip((*CLASS_BOUNDS_MS, None), latency.total_classes, strict=True):
            passed += count
            buckets.append(("+Inf" if bound_ms is None else str(bound_ms / 1000), passed))
        name = f"{PREFIX}put_latency_seconds"
        return HistogramMetricFamily(name, "Time of a put.", buckets=buckets, sum_value=latency.total_ms / 1000)

    def _gauges(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import GaugeMetricFamily

        store = self._store
        log = store.opened.log
        values = {
            "log_start_offset": ("Log offset of the first segment.", log.min_offset),
            "log_end_offset": ("Log offset after the last record.", log.max_offset),
            "unflushed_bytes": ("Bytes of the log that are not durable.", log.max_offset - log.segments.flushed_where),
            "undispatched_bytes": ("Bytes of the log that queues and index lack.", store.behind_bytes),
            "held_gets": ("Gets that wait for a message.", store.held_count),
            "findings": ("Damage, failures and refusals that stats names.", len(store.describe_findings())),
        }
        for name, (text, value) in values.items():
            yield GaugeMetricFamily(PREFIX + name, text, value=value)
        disk = GaugeMetricFamily(f"{PREFIX}disk_used_ratio", "Used share of a partition.", labels=["folder"])
        for folder in (*store.layout.commitlogs, store.layout.consumequeue):
            disk.add_metric([str(folder)], store.opened.fs.used_ratio(folder))
        yield disk
        flags = GaugeMetricFamily(f"{PREFIX}running_flag", "1 where the bit is set.", labels=["flag"])
        for flag in RunningFlag:
            flags.add_metric([str(flag.name)], int(flag in store.flags))
        yield flags


def _labelled(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    """Return a gauge with one label."""
    from prometheus_client.metrics_core import GaugeMetricFamily

    gauge = GaugeMetricFamily(PREFIX + name, text, labels=[label])
    for key, value in values.items():
        gauge.add_metric([key], value)
    return gauge


def _replication(state: ServedState) -> Iterator[Metric]:
    from prometheus_client.metrics_core import GaugeMetricFamily

    pushed, slaves = state.push_to_slave_max_offset, state.slaves
    yield GaugeMetricFamily(f"{PREFIX}slaves", "Slaves that are connected.", value=len(slaves))
    text = "Highest log offset that any slave ever acknowledged."
    yield GaugeMetricFamily(f"{PREFIX}push_to_slave_max_offset", text, value=pushed)
    acknowledged = {one.slave: one.acknowledged_offset for one in slaves}
    yield _labelled("slave_acknowledged_offset", "Log offset that a slave acknowledged.", "slave", acknowledged)
    behind = {one.slave: one.behind_bytes for one in slaves}
    yield _labelled("slave_behind_bytes", "Bytes of the log that a slave did not acknowledge.", "slave", behind)


def _deliveries(state: ServedState) -> Iterator[Metric]:
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    levels = {str(one.level): one for one in state.delay_levels}
    waiting = {level: one.waiting for level, one in levels.items()}
    yield _labelled("delay_waiting_messages", "Delayed messages that are not delivered.", "level", waiting)
    overdue = {level: one.overdue for level, one in levels.items()}
    yield _labelled("delay_overdue_messages", "Delayed messages whose time has come.", "level", overdue)
    since = {level: one.overdue_ms / 1000 for level, one in levels.items()}
    yield _labelled("delay_overdue_seconds", "For how long the oldest one's time has come.", "level", since)
    text = "Half messages neither committed, rolled back nor given up."
    yield GaugeMetricFamily(f"{PREFIX}halves_in_doubt", text, value=state.halves_in_doubt)
    text = "Half messages given up without an answer."
    yield CounterMetricFamily(f"{PREFIX}halves_given_up", text, value=state.halves_given_up)


def _connections(state: ServedState) -> Iterator[Metric]:
    from prometheus_client.metrics_core import CounterMetricFamily

    counts = {one.listener: one.open_connections for one in state.listeners}
    yield _labelled("connections", "Connections of a listener.", "listener", counts)
    limits = {one.listener: one.limit for one in state.listeners}
    yield _labelled("connection_limit", "Most connections of a listener.", "listener", limits)
    ended = CounterMetricFamily(
        f"{PREFIX}ended_connections", "Connections that a listener ended, by the rule.", labels=["listener", "rule"]
    )
    for one in state.listeners:
        for rule, count in sorted(one.ended.items()):
            ended.add_metric([one.listener, rule], count)
    yield ended


class CopyCollector:
    """The metrics of a log that is being received."""

    def __init__(self, receiver: Receiver, copy: CopiedLog) -> None:
        self._receiver, self._copy = receiver, copy

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, with its values of this moment."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        report, copy = self._receiver.report, self._copy
        ends = {
            "copy_log_end_offset": ("Log offset after the last verified record.", copy.end),
            "copy_durable_offset": ("Log offset up to which the copy is durable.", copy.durable),
        }
        for name, (text, value) in ends.items():
            yield GaugeMetricFamily(PREFIX + name, text, value=value)
        counts = {
            "received_bytes": ("Bytes that the master sent.", report.received_bytes),
            "master_connections": ("Connections made to the master.", report.connection_count),
        }
        for name, (text, value) in counts.items():
            yield CounterMetricFamily(PREFIX + name, text, value=value)


class MetricsServer:
    """Answers GET /metrics at `address` with the metrics of `collector`; port 0 takes a free one."""

    def __init__(self, collector: Collector, address: Address, limits: Limits | None = None) -> None:
        from prometheus_client import CollectorRegistry, ProcessCollector

        # With the metrics' names known, name[]=… selects some of them.
        registry = CollectorRegistry(auto_describe=True)
        registry.register(collector)
        ProcessCollector(registry=registry)
        self._page = _page_of(registry)
        server = address.listen()
        self.address = Address(*server.getsockname()[:2])
        refusal = b"HTTP/1.0 503 Service Unavailable\r\n\r\n"
        self.listener = Listener("metrics port", server, self._serve, limits or Limits(), refusal)

    def __enter__(self) -> Self:
        self.listener.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the listener and its connections."""
        self.listener.stop()

    def _serve(self, peer: Peer) -> None:
        self._page(peer.connection, peer.address, None)


def _page_of(registry: CollectorRegistry) -> type:
    """Return the handler of one request: prometheus_client's, at /metrics alone."""
    from prometheus_client.exposition import MetricsHandler

    class Page(MetricsHandler):
        def do_GET(self) -> None:  # noqa: N802 (http.server's name)
            if self.path.partition("?")[0] == PATH:
                super().do_GET()
            else:
                self.send_error(404, explain=f"metrics are at {PATH}")

    return Page.factory(registry)
