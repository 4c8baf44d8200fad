"""Read batch consume queues (queue.type=BatchCQ): one unit for a record of several messages."""
