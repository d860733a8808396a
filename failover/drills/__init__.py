"""Drills: rehearsed failures as TOML files, and the verdict on what one cost."""
