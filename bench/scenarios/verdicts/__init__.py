"""Verdicts on runs of scenarios: what each group paid, its limits, and which run cost least."""
