"""What the groups of a partition were told, kept in a bounded ring, and replayed from a file."""
