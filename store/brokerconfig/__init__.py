"""The broker's own tables under config/: what a broker would load of them, and what they say about a store."""
