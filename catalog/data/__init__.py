"""Data files: from data frames to Parquet, and back to batches of one schema."""
