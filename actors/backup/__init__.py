"""Backups: the state of a cluster in files with Kafka's segments, made, verified and restored."""
