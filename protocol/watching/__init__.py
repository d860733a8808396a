"""What happened in another cluster's groups: facts, concluded from their coordinators' records."""
