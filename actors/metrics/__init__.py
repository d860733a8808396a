"""Every metric in one table: its names, unit, labels, and where its values are read."""
