"""The TCP links between coordinators: handshake, frames, bounded buffers."""
