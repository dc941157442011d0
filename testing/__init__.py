"""Support for tests and benchmarks: servers, stores that count or fail, logs without a store."""
