"""Read, check and mend the compacted copies of topics with cleanup.policy=COMPACTION."""
