"""The controller's decisions: who stands for election, who moves, which log is set aside."""
