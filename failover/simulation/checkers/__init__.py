"""Invariants of a simulation: of logs, states, answers, and what clients were told."""
