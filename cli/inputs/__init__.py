"""Local files of any format as Arrow data of one schema, for `lakelog write`."""
