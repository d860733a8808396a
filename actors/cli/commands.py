"""The commands that have modules of their own, for ``actors.cli.main`` to register.

Each command sets ``args.run`` to a function that takes the parsed arguments and returns the exit
code, or raises ``CommandError``.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction
    from collections.abc import Mapping

MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "groups": ".groups",
        "explain": ".explain",
        "watch": ".telling.watch",
        "members": ".members",
        "topics": ".topics",
        "configs": ".configs",
        "backup": ".backup",
        "restore": ".backup",
        "recover": ".backup",
        "import": ".exchange",
        "export": ".exchange",
        "balance": ".balance",
        "upgrade": ".upgrade",
        "log": ".log.dump",
    }
)
"""The module, below this package, whose ``add_parser`` adds each command; it may add several."""


def add_parsers(subparsers: _SubParsersAction[ArgumentParser], command: str | None = None) -> None:
    """Add the commands of the module that has ``command``; of all modules if none has it.

    To import all modules takes longer than most commands do.
    """
    module = MODULES.get(command or "")
    wanted = dict.fromkeys(MODULES.values()) if module is None else [module]
    for name in wanted:
        import_module(name, __package__).add_parser(subparsers)
