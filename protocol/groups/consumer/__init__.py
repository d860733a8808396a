"""Consumer groups (KIP-848): their hard state, its replays, and what a heartbeat changes."""
