"""Groups between Rollcall, its backups and a real Kafka, and rehearsals on one."""
