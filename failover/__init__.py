"""Many partitions in one process: who leads, who stands by, what waits for the high watermark."""
