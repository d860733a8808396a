"""A cluster for tests of applications: coordinators in one process, and a pytest plugin."""
