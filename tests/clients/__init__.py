"""Real Kafka clients over real sockets, against a server known only by its bootstrap string."""
