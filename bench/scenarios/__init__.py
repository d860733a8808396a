"""Scenarios: applications, deploys and faults as TOML files, run in virtual time."""
