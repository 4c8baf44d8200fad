"""Consume queues: for each topic and queue id, where its messages are in the log, by queue offset."""
