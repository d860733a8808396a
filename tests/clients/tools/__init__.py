"""Kafka's command line tools and ours, side by side on a real Kafka and on Rollcall."""
