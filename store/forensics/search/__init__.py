"""find: where a message is, whatever is known of it, and what became of it."""
