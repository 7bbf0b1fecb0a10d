"""The user's own data: from a described table to ordered sequences, split by time, with a card that hides nothing."""
