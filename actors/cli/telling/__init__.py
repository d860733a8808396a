"""``rollcall watch``: the command, and what it prints."""
