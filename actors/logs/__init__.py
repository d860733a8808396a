"""Log lines: their form, their files, and what they say of leaders and orders."""
