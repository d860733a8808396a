"""Bytes to messages and back: frames, the API table, and the mapping between message versions."""
