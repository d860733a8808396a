"""Group logic of one partition: (event, now) in; records, replies, tasks and facts out."""
