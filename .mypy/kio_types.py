"""mypy plugin: kio's bounded numbers and named strings are plain ``int``, ``str`` … to the checker.

kio checks the bounds when it encodes; asking for ``i32(...)`` around every integer would cost a
call per field on the hot path and make the core unreadable.
"""

from collections.abc import Callable

from mypy.plugin import AnalyzeTypeContext, Plugin
from mypy.types import Type

PLAIN = {
    **{
        f"kio.static.primitive.{name}": "builtins.int"
        for name in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
    },
    "kio.static.primitive.f64": "builtins.float",
    "kio.static.primitive.i32Timedelta": "datetime.timedelta",
    "kio.static.primitive.i64Timedelta": "datetime.timedelta",
    "kio.static.primitive.TZAware": "datetime.datetime",
    "kio.static.primitive.Records": "builtins.bytes",
    "kio.schema.types.BrokerId": "builtins.int",
    "kio.schema.types.ProducerId": "builtins.int",
    "kio.schema.types.GroupId": "builtins.str",
    "kio.schema.types.TopicName": "builtins.str",
    "kio.schema.types.TransactionalId": "builtins.str",
}


class KioTypes(Plugin):
    """Reads kio's named primitive types as the Python types they are at run time."""

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        """Name the plain type that stands for kio's, if it is one of these."""
        plain = PLAIN.get(fullname)
        if plain is None:
            return None
        return lambda context: context.api.named_type(plain, [])


def plugin(_version: str) -> type[Plugin]:
    """Mypy's entry point."""
    return KioTypes
