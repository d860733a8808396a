"""Kafka's own request-level group tests against this server."""
