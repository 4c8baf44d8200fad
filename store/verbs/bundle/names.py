"""Disguise the names in a store: topics, groups, cluster and broker, and the addresses of hosts.

    %RETRY%orders        %RETRY%Xk3bQz     a name keeps its length, its Java hash code, and a broker's prefix
    10.1.2.3:10911       201.7.33.94:10911 an address becomes a digest, wherever it is; ports stay
    7F0000013A2C… | …    Xk3bQz… | …       in UNIQ_KEY the part of a client's process

Index and timer log hold hash codes of topics, so they stay as they are. Brokers' own names stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from hashlib import blake2b

from store.errors import BadRequest
from store.formats.disguise import disguise, fill
from store.formats.topics import BROKERS_OWN, SYSTEM_PREFIX

_PREFIX = re.compile(rf"%[A-Z]+%|{SYSTEM_PREFIX}[A-Z_]+_")
"""A broker's prefix before a group, a topic, a cluster or a broker: %RETRY%, rmq_sys_REVIVE_LOG_."""
_OWN = re.compile(rf"TBW102|BenchmarkTest|RMQ_SYS_.*|{SYSTEM_PREFIX}.*|CID_(ONS|RMQ_SYS_|SYS_).*|TOOLS_CONSUMER|[\d.]*")
_FIELDS = frozenset((
    "topicConfigTable", "subscriptionGroupTable", "offsetTable", "queueOffsetMap",
    "forbiddenTable", "filterDataByTopic", "groupTopicMap", "timingCount", "dataVersion", "kvDataVersion", "attributes",
    "groupRetryPolicy", "exponentialRetryPolicy", "customizedRetryPolicy", "table", "orderInfo",
    "commitlog", "config", "consumequeue", "index",
))  # fmt: skip
"""Names of tables and folders; a topic with such a name keeps it."""
_KEYS = re.compile(rb'"([^"\\]+)"\s*:\s*\{|"(?:topic|topicName|group|groupName|consumerGroup)"\s*:\s*"([^"\\]+)"')
_IDENTITY = re.compile(rb"([^#\s]+)#([^#\s]+)#\d+")
_DELIMITERS = rb"\s\"'\\/@#:,;{}\[\]()="
_TOKEN = re.compile(rb"[^%b]+" % _DELIMITERS)
_DELIMITER = re.compile(rb"[%b]" % _DELIMITERS)
_PROCESS_DIGITS = 20
"""The first digits of a UNIQ_KEY: address, process and class loader of a client."""


class NameMask:
    """The disguises of a store's names, by a salt; equal names stay equal.

    BadRequest if two of the `names` would become one.
    """

    def __init__(self, salt: bytes, names: Collection[str] = ()) -> None:
        self._salt = salt
        pairs = {name.encode("utf-8", "surrogateescape"): self.name(name) for name in names}
        self._known = {name: other.encode("utf-8", "surrogatepass") for name, other in pairs.items()}
        self.kept = sorted(name for name in names if self.name(name) == name and not self._is_own(name))
        """Names without a disguise: no other text has their length and hash code."""
        if len(set(self._known.values())) < len(self._known):
            raise BadRequest("two names would become the same", code="same-names")
        parted = sorted(filter(_DELIMITER.search, self._known), key=len, reverse=True)
        self._parted = re.compile(b"|".join(map(re.escape, parted))) if parted else None
        self.properties: Mapping[str, Callable[[str], str]] = {
            **dict.fromkeys(("REAL_TOPIC", "RETRY_TOPIC", "DLQ_ORIGIN_TOPIC", "PGROUP"), self.name),
            **dict.fromkeys(("CLUSTER", "INSTANCE_ID", "REPLY_TO_CLIENT", "MSG_REGION", "POP_CK"), self._fill),
            **dict.fromkeys(("UNIQ_KEY", "__transactionId__", "EXTEND_UNIQ_INFO"), self._client_id),
            **dict.fromkeys(("ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID"), self._message_id),
            "INNER_MULTI_DISPATCH": lambda value: ",".join(map(self.name, value.split(","))),
            "TIMER_DEL_UNIQKEY": self._deleted_timer,
        }

    def name(self, name: str) -> str:
        """Disguise a topic or a group."""
        prefix = _prefix_of(name)
        return name if self._is_own(name) else prefix + disguise(name.removeprefix(prefix), self._salt)

    def _is_own(self, name: str) -> bool:
        rest = name.removeprefix(_prefix_of(name))
        return (
            name in BROKERS_OWN or name in _FIELDS or name.endswith("OffsetTable") or _OWN.fullmatch(rest) is not None
        )

    def topic(self, topic: bytes) -> bytes:
        """Disguise the topic of a record."""
        try:
            return self.name(topic.decode("utf-8")).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return b"?" * len(topic)

    def host(self, address: bytes) -> bytes:
        """Disguise an address of 4 or 16 bytes."""
        return blake2b(address, key=self._salt, digest_size=len(address)).digest()

    def text(self, data: bytes) -> bytes:
        """Disguise the known names in a text."""
        if self._parted is not None:
            data = self._parted.sub(lambda found: self._known[found[0]], data)
        return _TOKEN.sub(lambda found: self._word(found[0]), data)

    def _word(self, word: bytes) -> bytes:
        # Queues have names of the form topic_7 in some tables.
        topic, line, number = word.rpartition(b"_")
        queue = self._known.get(topic, topic) + line + number if number.isdigit() else word
        return self._known.get(word, queue)

    def path(self, path: str) -> str:
        """Disguise the folders of a path that have known names."""
        parts = (part.encode("utf-8", "surrogateescape") for part in path.split("/"))
        return b"/".join(self._known.get(part, part) for part in parts).decode("utf-8", "surrogateescape")

    def _fill(self, value: str) -> str:
        return fill(value, self._salt)

    def _client_id(self, value: str) -> str:
        # The front changes with the process alone: the disguises that are kept serve all of its messages.
        return disguise(value[:_PROCESS_DIGITS], self._salt) + value[_PROCESS_DIGITS:]

    def _deleted_timer(self, value: str) -> str:
        topic, plus, key = value.rpartition("+")
        return self.name(topic) + plus + self._client_id(key) if plus else self._client_id(key)

    def _message_id(self, value: str) -> str:
        size = len(value) - 24
        try:
            return self.host(bytes.fromhex(value[:size])).hex().upper() + value[size:]
        except ValueError:
            return self._fill(value)


def _prefix_of(name: str) -> str:
    found = _PREFIX.match(name)
    return found[0] if found is not None else ""


def names_in(table: bytes) -> Iterator[str]:
    """Yield the names of topics, groups, cluster and broker in a table, damaged or not."""
    for found in (*_KEYS.finditer(table), *_IDENTITY.finditer(table)):
        for part in filter(None, found.groups()):
            # Offsets are kept by topic@group.
            name = part.decode("utf-8", "surrogateescape")
            yield from name.split("@") if "@" in name[1:-1] and not _prefix_of(name) else [name]
