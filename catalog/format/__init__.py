"""The bytes: names, frames, segments, footers and schemas, encoded and decoded. Pure."""
