"""A toy group type, made by docs/how-to/add-a-group-type.md: its partitions have several owners."""
