"""Kafka's record types, one module per kind of group."""
