"""What is in deploy/: checked against the schemas and tools of those who read it."""
