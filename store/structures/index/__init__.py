"""Index files: from a key to the log offsets of its messages, by hash."""
