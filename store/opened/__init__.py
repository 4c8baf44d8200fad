"""One way to open a store: recognise the folder, load its files in the broker's order, show a view."""
