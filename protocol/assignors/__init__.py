"""Assignors of consumer and share groups: pure functions from arrays to arrays."""
