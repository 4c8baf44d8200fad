"""The HTML report of a store: contents.py, charts.py, and page.py."""
