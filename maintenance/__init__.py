"""Maintenance of whole databases: each step over all writers, and the job that does all of them."""
