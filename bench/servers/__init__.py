"""The servers that are measured, Rollcall and Apache Kafka: started, watched, killed."""
