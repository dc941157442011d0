"""The log and its readers: the pure folders `format` and `log`, and around them `data`, `read` and
`commit`, which do I/O. `catalog.Catalog` and `snapshot.Snapshot` are what users hold."""
