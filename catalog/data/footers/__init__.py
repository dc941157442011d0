"""Reading Parquet footers of unknown origin, in a child process."""
