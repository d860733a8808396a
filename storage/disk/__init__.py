"""The data directory: the log in RocksDB, its sync, its identity, damage and stale copies."""
