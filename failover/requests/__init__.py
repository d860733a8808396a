"""Requests between the socket and the partition: queued, routed, split, forwarded, delayed."""
