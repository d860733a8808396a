"""The pure core: messages, records, configs and groups. No clock, socket, thread or disk."""
