"""Bytes to messages and back: frames, the API table, and conversions between message versions."""
