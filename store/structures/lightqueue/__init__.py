"""Light message queues (LMQ): further queues of a message, listed in its properties."""
