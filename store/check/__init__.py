"""Find damage in a store: compare the log with its queues, its index and its checkpoint. Reads only."""
