"""The message database of 5.4 and later: an index, timers and half messages in one RocksDB."""
