"""Committed offsets of groups of every type: commit, fetch, delete, expire."""
