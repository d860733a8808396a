"""One process with many partitions: what it hosts, one turn of it, and the ports of a turn."""
