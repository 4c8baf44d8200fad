"""Consume queues in a RocksDB (5.x, storeType=defaultRocksDB)."""
