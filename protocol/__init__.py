"""The pure core: messages, records, configurations, group logic. No clock, socket, thread or disk."""
