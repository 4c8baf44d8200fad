"""Read batch consume queues, whose units are of records of several messages (queue.type=BatchCQ)."""
