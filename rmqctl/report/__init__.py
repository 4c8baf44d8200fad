"""The HTML report of a store: what is in it (contents.py), its charts (charts.py), and the page (page.py)."""
