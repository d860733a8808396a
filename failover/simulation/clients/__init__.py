"""Simulated clients: members of groups, administrators, and callers of every API."""
