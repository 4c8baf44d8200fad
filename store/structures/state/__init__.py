"""The small files with a 5.x broker's state, read line by line."""
