"""Messages of Kafka 4.4 that kio does not have yet, generated from their schemas in its form."""
