"""Rounds, medians and tables of figures, and the page of results."""
