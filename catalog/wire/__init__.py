"""Code generated from `proto/`. Regenerate with `make proto`; a test holds it against the
sources."""
