"""What the tests share: stores that brokers wrote, stores made on the spot, and pictures of a folder to compare."""
