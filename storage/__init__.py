"""The replicated log: its replica state machine and the disk below it."""
