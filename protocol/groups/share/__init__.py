"""Share groups (KIP-932): members, assignments, and which partitions have share state."""
