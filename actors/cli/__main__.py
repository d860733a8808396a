"""``python -m actors.cli`` is ``rollcall``."""

from actors.cli.main import entry

raise SystemExit(entry())
