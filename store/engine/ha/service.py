"""HAService: replication of a store that is written to, as master, as slave, or as both.

    listen   serve the log to slaves
    master   follow a master (role SLAVE)

A put of a SYNC_MASTER waits for slaves, unless its message says WAIT=false:

    4.9   no slave, or one haSlaveFallbehindMax bytes behind   SLAVE_NOT_AVAILABLE at once
          a slave has it in slaveTimeout, or not               PUT_OK, FLUSH_SLAVE_TIMEOUT
    5.3   inSyncReplicas of 1                                  PUT_OK without waiting
          inSyncReplicas - 1 slaves have it in time, or not    PUT_OK, FLUSH_SLAVE_TIMEOUT

Source: CommitLog.submitReplicaRequest, HAService (4.9.8); CommitLog.handleHA, calcNeedAckNums (5.3.3).
"""

from __future__ import annotations

from store.broker_line import LINE_4_9, BrokerLine
from store.config import StoreConfig
from store.engine.ha.link import Address
from store.engine.ha.master import CommitLogSource, HAMaster, MasterOptions
from store.engine.ha.slave_log import HAClient
from store.structures.commitlog.commit_log import CommitLog
from store.structures.commitlog.put_result import PutStatus


class HAService:
    """The master and the slave of a store's replication; without its address a side is left out."""

    def __init__(
        self, log: CommitLog, config: StoreConfig, line: BrokerLine, listen: Address | None, master: Address | None
    ) -> None:
        self._needed_slaves = config.in_sync_replicas - 1 if line is not LINE_4_9 else None
        self._is_sync = config.broker_role == "SYNC_MASTER"
        self.master = HAMaster(CommitLogSource(log), listen, _options(config)) if listen is not None else None
        self.client = HAClient(log, master) if master is not None else None

    @property
    def is_waited_for(self) -> bool:
        """Whether puts wait for slaves."""
        return self._is_sync and self.master is not None

    def start(self) -> None:
        """Begin to serve slaves, and to follow the master."""
        if self.master is not None:
            self.master.start()
        if self.client is not None:
            self.client.start()

    def stop(self) -> None:
        """Stop both; afterwards nothing is sent or appended any more."""
        if self.client is not None:
            self.client.stop()
        if self.master is not None:
            self.master.stop()

    def describe_findings(self) -> list[str]:
        """Return why replication ended by itself, as sentences for people."""
        failure = self.client.failure if self.client is not None else None
        return [f"replication ended: {failure}"] if failure is not None else []

    def replicate(self, next_offset: int) -> PutStatus:
        """Wait for the slaves of a put that ends at `next_offset`."""
        if self.master is None:
            return PutStatus.SLAVE_NOT_AVAILABLE
        if self._needed_slaves is None:
            return PutStatus(self.master.wait_for_slave(next_offset).value)
        return PutStatus(self.master.wait_for_slaves(next_offset, self._needed_slaves).value)


def _options(config: StoreConfig) -> MasterOptions:
    return MasterOptions(
        batch_size=config.ha_transfer_batch_size,
        heartbeat_s=config.ha_send_heartbeat_interval / 1000,
        housekeeping_s=config.ha_housekeeping_interval / 1000,
        slave_timeout_s=config.slave_timeout / 1000,
        fall_behind_max=config.ha_slave_fallbehind_max,
    )
