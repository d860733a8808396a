"""Recording of a partition's events in a bounded ring, and replay from a file."""
