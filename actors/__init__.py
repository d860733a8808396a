"""The side effects: Ray actors, sockets, clocks, telemetry and the command line."""
