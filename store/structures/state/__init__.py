"""The small files that a 5.x broker keeps its state in, read line by line."""
