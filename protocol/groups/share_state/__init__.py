"""The share coordinator (KIP-932): the share state of partitions, its records and requests."""
