"""Simulated members beside real clients."""
