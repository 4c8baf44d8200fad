"""What the broker's services left in a store: delayed messages and transactions, and what became of each."""
