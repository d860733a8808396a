"""Streams groups: their topology, tasks, statuses and records."""
