"""Streams groups (KIP-1071): their topology and its topics, tasks, and what a heartbeat changes."""
