"""Warm-up tasks of streams groups: a task moves once its new owner has caught up."""
