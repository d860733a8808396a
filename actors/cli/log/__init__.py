"""``rollcall log``: the records of a stopped coordinator, decoded for people and tools."""
