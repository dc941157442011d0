"""Predicates: what `where=` says, held against rows, statistics and engines. Pure."""
