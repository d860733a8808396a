"""Assignors of consumer groups: pure functions from arrays to arrays (KIP-848, KIP-881)."""
