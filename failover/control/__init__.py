"""What the controller decides: who stands for election, who moves, which log is set aside."""
