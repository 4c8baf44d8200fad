"""Cluster: a live cluster as the target of a replay.

    places, refusal   queues, and messages that the target would refuse, before anything is sent
    send              many messages at once; an answer each
    find              messages in doubt, by UNIQ_KEY in the index, else by ORIGIN in the queues; certain only after the
                      broker has stored all it received

A message with a future deliver time gets it as TIMER_DELIVER_MS if the broker has timers (5.x). Else it gets the first
delay level that ends no earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from store.engine.ha.link import Address
from store.engine.remoting.answers import answer_of
from store.engine.remoting.connection import TIMEOUT_S, Connection
from store.engine.remoting.queue_reading import messages_between, records_in
from store.engine.remoting.routes import Routes
from store.engine.remoting.settling import Settling
from store.errors import BadRequest, DamagedRecord, LinkLost, StoreError
from store.formats.message import StoredMessage
from store.formats.properties import DELAY, MAX_PROPERTIES_SIZE, encode_properties
from store.formats.remoting import (
    GET_BROKER_CONFIG,
    QUERY_MESSAGE,
    QUERY_NOT_FOUND,
    SEND_MESSAGE_V2,
    SEND_V2_NAMES,
    SUCCESS,
    UNIQUE_KEY_QUERY,
    Frame,
)
from store.formats.timer import TIMERS_ON
from store.formats.topics import SCHEDULE_TOPIC, TIMER_TOPIC, topic_fault
from store.setting_values import parse_delay_levels
from store.verbs.replay.sending import ORIGIN, Sending
from store.verbs.replay.target import Answer, Doubt, Outcome, Place

GROUP = "rmqctl_replay"
MAX_MESSAGE_SIZE = 4 << 20
"""maxMessageSize of a broker that does not show its settings."""
DAY_MS = 86_400_000
CLOCKS_MS = 600_000
"""The assumed largest difference between a broker's clock and this machine's."""
_LEVELS = 18
"""Queues of SCHEDULE_TOPIC_XXXX (TopicConfigManager)."""
_ORIGIN_SIZE = len(ORIGIN) + 75
"""The size of the property with an IPv6 message id, and its separators."""
_MOST_FOUND = 32
_DELIVER_MS = "TIMER_DELIVER_MS"


class Cluster:
    """A live cluster, by the first of `addresses` (HOST:PORT;…) that answers; LinkLost without one."""

    def __init__(self, addresses: str, clock: Callable[[], int], timeout_s: float = TIMEOUT_S) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._connections: dict[Address, Connection] = {}
        self._settings: dict[str, Mapping[str, str]] = {}
        self.routes = self._reach([Address.parse(text.strip()) for text in addresses.split(";")])
        self._brokers_of: dict[str, set[str]] = {}

    def close(self) -> None:
        """End all connections."""
        while self._connections:
            self._connections.popitem()[1].close()

    def places(self, topic: str) -> Sequence[Place]:
        """Return the queues that accept messages of a topic; BadRequest with the reason if none does."""
        if fault := topic_fault(topic):
            raise BadRequest(f"the topic {topic} {fault}")
        places = self.routes.places(topic)
        self._brokers_of[topic] = {place.broker for place in places}
        return places

    def refusal(self, sending: Sending) -> str:
        """Return why a broker will refuse a message; empty if it will accept it."""
        limits = [self.settings(broker).get("maxMessageSize", "") for broker in self._brokers_of[sending.topic]]
        most = min((int(limit) for limit in limits if limit.isdigit()), default=MAX_MESSAGE_SIZE)
        if len(sending.body) > most:
            return f"the body is larger than maxMessageSize, {most} bytes"
        if len(encode_properties(sending.properties)) + _ORIGIN_SIZE > MAX_PROPERTIES_SIZE:
            return f"the properties and {ORIGIN} have more than {MAX_PROPERTIES_SIZE} bytes"
        return ""

    def settings(self, broker: str) -> Mapping[str, str]:
        """Return all settings of a broker; empty if it does not show them."""
        if broker not in self._settings:
            answer = self._connection(self.routes.master(broker)).ask(GET_BROKER_CONFIG)
            lines = answer.body.decode("utf-8", "replace").splitlines() if answer.code == SUCCESS else ()
            self._settings[broker] = dict(line.split("=", 1) for line in lines if "=" in line)
        return self._settings[broker]

    def send(self, batch: Sequence[tuple[Sending, Place]], origins: Sequence[str]) -> Sequence[Answer]:
        """Send all messages, and wait for the answers; `origins` are the values of the property ORIGIN."""
        by_broker: dict[str, list[int]] = {}
        for number, (_, place) in enumerate(batch):
            by_broker.setdefault(place.broker, []).append(number)
        found: dict[int, Answer] = {}
        waiting: list[tuple[Connection, list[Frame], list[int], int]] = []
        for broker, numbers in by_broker.items():
            try:
                connection = self._connection(self.routes.master(broker))
                fields = [self._fields(*batch[number], origins[number]) for number in numbers]
            except (LinkLost, BadRequest) as error:
                found |= {number: Answer(Outcome.AGAIN, error.reason) for number in numbers}
                continue
            bodies = [batch[number][0].body for number in numbers]
            requests = [connection.request(SEND_MESSAGE_V2, *both) for both in zip(fields, bodies, strict=True)]
            waiting.append((connection, requests, numbers, connection.write(requests)))
        for connection, requests, numbers, written in waiting:
            problems: list[str] = []
            answers = connection.read(requests[:written], problems)
            reason = problems[0] if problems else "the connection was lost"
            for turn, (number, request) in enumerate(zip(numbers, requests, strict=True)):
                answer = answer_of(answers.get(request.opaque), reason)
                found[number] = answer if turn < written else Answer(Outcome.AGAIN, reason)
        return [found[number] for number in range(len(batch))]

    def find(self, doubts: Sequence[Doubt], ledger_id: str) -> Sequence[Answer]:
        """Look up messages that may be there; return an Answer each, DOUBT if the broker cannot tell."""
        found: dict[bytes, Answer] = {}
        for broker in dict.fromkeys(one.broker for one in doubts):
            asked = [one for one in doubts if one.broker == broker]
            try:
                found |= self._find_in(broker, asked, ledger_id)
            except StoreError as error:
                found |= {one.key: Answer(Outcome.DOUBT, error.reason) for one in asked}
        return [found[one.key] for one in doubts]

    def _find_in(self, broker: str, doubts: Sequence[Doubt], ledger_id: str) -> dict[bytes, Answer]:
        """Search the index for the messages, and the queues for those that the index lacks."""
        connection = self._connection(self.routes.master(broker))
        settled = Settling.wait(connection, max(one.sent_ms for one in doubts), self._clock)
        records = {one.key: self._look_up(one, f"{one.origin}/{ledger_id}") for one in doubts}
        missing = {f"{one.origin}/{ledger_id}": one for one in doubts if records[one.key] is None}
        times = [one.sent_ms for one in missing.values()]
        for topic, queue_id in _queues_of(missing.values()):
            span = min(times) - CLOCKS_MS, max(times) + CLOCKS_MS
            for message in messages_between(connection, topic, queue_id, *span):
                if one := missing.get(message.properties.get(ORIGIN, "")):
                    records[one.key] = message
        answers = {}
        for one in doubts:
            record = records[one.key]
            unknown = settled if isinstance(settled, str) else settled.unknown(one.sent_ms)
            if record is not None:
                answers[one.key] = Answer(Outcome.ACKNOWLEDGED, "found", record.msg_id, record.queue_offset)
            else:
                answers[one.key] = Answer(Outcome.DOUBT if unknown else Outcome.AGAIN, unknown or "it is not there")
        return answers

    def _look_up(self, doubt: Doubt, origin: str) -> StoredMessage | None:
        connection = self._connection(self.routes.master(doubt.broker))
        for topic in (doubt.topic, SCHEDULE_TOPIC, TIMER_TOPIC):
            fields = {
                "topic": topic,
                "key": doubt.uniq_key,
                "maxNum": str(_MOST_FOUND),
                "beginTimestamp": str(doubt.sent_ms - DAY_MS),
                "endTimestamp": str(doubt.sent_ms + DAY_MS),
                "indexType": "U",
                UNIQUE_KEY_QUERY: "true",
            }
            answer = connection.ask(QUERY_MESSAGE, fields)
            if answer.code not in (SUCCESS, QUERY_NOT_FOUND):
                raise BadRequest(f"the broker does not search: code {answer.code}: {answer.remark[:200]}")
            # A stale entry of the index may lead to bytes that are no record; the queues decide then.
            with suppress(DamagedRecord):
                for record in records_in(answer.body):
                    if record.properties.get(ORIGIN) == origin:
                        return record
        return None

    def _fields(self, one: Sending, place: Place, origin: str) -> dict[str, str]:
        properties = {**one.properties, **self._delay(one, place.broker), ORIGIN: origin}
        # The default topic does not exist, so no broker creates the topic again if it is deleted meanwhile.
        values: dict[str, object] = {
            "producerGroup": GROUP,
            "topic": one.topic,
            "defaultTopic": one.topic,
            "defaultTopicQueueNums": 4,
            "queueId": place.queue_id,
            "sysFlag": one.sys_flag,
            "bornTimestamp": one.born_timestamp_ms,
            "flag": one.flag,
            "properties": encode_properties(properties).decode("utf-8", "surrogatepass"),
            "reconsumeTimes": one.reconsume_times,
            "unitMode": "false",
            "batch": "false",
        }
        return {SEND_V2_NAMES[name]: str(value) for name, value in values.items()}

    def _delay(self, one: Sending, broker: str) -> dict[str, str]:
        """Return the properties that make the broker wait for the rest of a delay."""
        rest_ms = one.deliver_ms - self._clock()
        if rest_ms <= 0:
            return {}
        settings = self.settings(broker)
        if settings.get(TIMERS_ON) == "true":
            return {_DELIVER_MS: str(one.deliver_ms)}
        levels = parse_delay_levels(settings.get("messageDelayLevel", ""))
        longer = [level for level, delay_ms in enumerate(levels, 1) if delay_ms >= rest_ms]
        return {DELAY: str(longer[0] if longer else len(levels))}

    def _reach(self, addresses: Sequence[Address]) -> Routes:
        problems = []
        for address in addresses:
            try:
                return Routes(address, self._connection)
            except LinkLost as error:
                problems.append(error)
        raise problems[0]

    def _connection(self, address: Address) -> Connection:
        if address in self._connections and self._connections[address].is_over:
            self._connections.pop(address).close()
        if address not in self._connections:
            self._connections[address] = Connection(address, self._timeout_s)
        return self._connections[address]


def _queues_of(doubts: Iterable[Doubt]) -> list[tuple[str, int]]:
    """Return the queues of these messages, and the queues of delayed messages."""
    own = sorted({(one.topic, one.queue_id) for one in doubts})
    waiting = [*((SCHEDULE_TOPIC, queue_id) for queue_id in range(_LEVELS)), (TIMER_TOPIC, 0)]
    return [*own, *waiting] if own else []
