"""The command line: ``rollcall``, or ``python -m rollcall``."""

from actors.cli.main import entry

if __name__ == "__main__":
    raise SystemExit(entry())
