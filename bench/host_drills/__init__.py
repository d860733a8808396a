"""Drills on several hosts: a table of what goes wrong, and how one is carried out."""
