"""Get: the messages of a queue, with the broker's limits and filters."""
