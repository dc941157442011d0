"""Other engines over one cut: datasets of pyarrow, frames of pandas and Polars, views of DuckDB."""
