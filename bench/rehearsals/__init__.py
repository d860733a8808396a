"""Rehearsals: scenarios carried out in virtual and in real time, and their runs side by side."""
