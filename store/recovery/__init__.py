"""Recovery: the log's valid end, the cut behind it, and queues and index to match.

As plans.
"""
