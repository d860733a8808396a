"""The Ray actors: how they are started, watched, asked and stopped; the controller's process."""
