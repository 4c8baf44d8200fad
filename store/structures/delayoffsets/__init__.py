"""The progress of delayed delivery: the next queue offset of each level (config/delayOffset.json)."""
