"""The messages and the store of pop consumers (rmq_sys_REVIVE_LOG_*, kvStore)."""
