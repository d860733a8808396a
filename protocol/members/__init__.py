"""Client members without sockets, shared by tests, simulator and load generators."""
