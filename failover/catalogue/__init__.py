"""The catalogue: topics, configs and nodes, a replicated state machine, and a node's view."""
