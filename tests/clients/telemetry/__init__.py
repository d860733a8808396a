"""Traces on their way to a backend, through other programs."""
