"""Stories of rebalances on their way from facts to a history, and in a file."""
