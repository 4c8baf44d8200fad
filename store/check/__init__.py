"""What is wrong in a store: the log held against its queues, its index and its checkpoint. Reads only."""
