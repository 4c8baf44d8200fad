"""Cleaning: the files that the broker's retention rules delete. As plans."""
