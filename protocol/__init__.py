"""The pure core: messages, records, configs and groups; no clock, socket, thread or disk."""
