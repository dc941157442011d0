"""Changing a log: writers, transactions, and the commits that carry them."""
