"""The only tests that start Ray, and tests of what is around it without."""
