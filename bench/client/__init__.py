"""One client of the load generator: event loop, connections, frames."""
