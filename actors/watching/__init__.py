"""``rollcall watch``: reads ``__consumer_offsets`` of any Kafka, and tells what its groups did."""
