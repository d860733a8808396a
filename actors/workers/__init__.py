"""Assignor workers: processes that compute target assignments, and how tasks reach them."""
