"""``rollcall groups --reset-offsets``: what offsets are, which are wanted, and files of them."""
