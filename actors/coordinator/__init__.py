"""One coordinator process: its life from start to stop, its turns, its log's sync thread."""
