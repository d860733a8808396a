"""Programs that tests start: members of one client library each, which tell what they live."""
