"""The client of `protocol/client` on a blocking socket: for commands, benchmarks and tests."""
