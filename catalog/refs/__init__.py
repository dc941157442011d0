"""What is named across writers: tags, published cuts, and series of numbered objects."""
