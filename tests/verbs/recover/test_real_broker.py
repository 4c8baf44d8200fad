"""A recovered store under the real broker, with real clients."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cli.running import rmqctl
from tests.support.refbroker import SETTINGS, cluster, needs_refbroker

DELAY_MS = 20_000
LEVELS = {**SETTINGS, "messageDelayLevel": f"1s 5s {DELAY_MS // 1000}s"}


@needs_refbroker
def test_recovered_messages_come_after_the_delay_of_a_broker_with_levels_of_its_own(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with cluster(tmp_path / "real") as real:
        with real.broker(root, LEVELS) as broker:
            real.make_topic("Late", 1)
            sent = real.produce("Late", 45, "--delay", 3)
            broker.kill()
        schedule = root / "consumequeue/SCHEDULE_TOPIC_XXXX/2"
        for path in sorted(schedule.iterdir())[1:]:
            path.unlink()
        shutil.rmtree(root / "consumequeue/Late")
        assert rmqctl("recover", "--yes", store=root).code == 0
        late = rmqctl("--format", "json", "delay", "show", store=root).json["messages"]
        assert [row["deliver_timestamp_ms"] - row["store_timestamp_ms"] for row in late] == [DELAY_MS] * 45
        with real.broker(root, LEVELS):
            got = real.consume("Late", "billing", 45)
    assert min(row["storeTimestamp"] - row["bornTimestamp"] for row in got) >= DELAY_MS
    assert sorted(row["properties"]["UNIQ_KEY"] for row in got) == sorted(row["msgId"] for row in sent)
