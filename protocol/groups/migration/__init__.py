"""Online migration between classic and consumer groups, and groups with members of both."""
