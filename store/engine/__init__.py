"""Write to a store, with the services of a broker beside it."""
