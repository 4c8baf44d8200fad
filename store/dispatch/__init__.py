"""Dispatch: pass the log's records to the queues and the index."""
