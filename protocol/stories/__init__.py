"""Why groups rebalanced: a story for each rebalance, its sentence, its history, and storms."""
