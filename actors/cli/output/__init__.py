"""What commands print: tables that fit the terminal, JSON for tools, progress of long work."""
