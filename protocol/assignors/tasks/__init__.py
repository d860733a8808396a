"""Assignors of streams groups: tasks by role, spread over processes (KIP-1071)."""
