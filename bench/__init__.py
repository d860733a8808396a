"""Load, drills and benchmarks, side by side with Apache Kafka."""
