"""The replicated log: Raft for each partition as a state machine, and the disk below it."""
