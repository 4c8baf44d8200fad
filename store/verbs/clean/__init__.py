"""Plans for cleaning: the files that the broker's retention rules delete."""
