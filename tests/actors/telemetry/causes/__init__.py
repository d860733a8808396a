"""Each cause of a rebalance, for each type of group: led to with requests, told, and traced."""
