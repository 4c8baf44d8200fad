"""The offsets that the delivery of delayed messages has reached (config/delayOffset.json)."""
