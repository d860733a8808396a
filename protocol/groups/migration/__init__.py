"""Migration between types: online to consumer groups and back, with members of both; offline."""
