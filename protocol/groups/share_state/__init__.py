"""The share coordinator (KIP-932): a state machine of share state, its records and requests."""
