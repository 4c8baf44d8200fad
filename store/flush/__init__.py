"""When bytes become durable: group commit, timed flush, timed commit, and the flush of the consume queues."""
