"""The wall clock of a host's Python programs, as a module that Python imports when it starts."""
