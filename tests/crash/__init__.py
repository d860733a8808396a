"""Processes are killed, and nothing that was acknowledged may be missing afterwards."""
