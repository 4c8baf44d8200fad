"""The checkpoint: how far log, queues and index were flushed."""
