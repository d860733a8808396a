"""Groups between Rollcall, its backups and a real Kafka."""
