"""Group logic: (event, now) in; records, replies, tasks and facts out."""
