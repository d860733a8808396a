"""What planted faults are made of: rows of made histories that are changed, or added to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

from bench.histories.made import HAS_STATIC, RESTARTER, TWIN
from bench.histories.prepared import is_kind
from bench.histories.schema import COLUMNS, FINAL
from protocol.members.history import MemberHistoryKind as Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame


def is_of(number: int, *kinds: str) -> Column:
    """Return whether a row is of a member, and of one of these kinds."""
    return is_kind(*kinds) & (F.col("member") == f"m-{number}")


def is_assigned(number: int, generation: int) -> Column:
    """Return whether a row is the assignment of a member in a generation."""
    return is_of(number, Kind.ASSIGNED) & (F.col("generation") == generation)


def change(rows: DataFrame, where: Column, **columns: object) -> DataFrame:
    """Change columns of some rows, to a number or to what an SQL expression says."""
    is_changed = rows.withColumn("is_changed", where)
    values = {name: _value(name, new) for name, new in columns.items()}
    changed = {
        name: F.when(F.col("is_changed"), value).otherwise(F.col(name))
        for name, value in values.items()
    }
    return is_changed.withColumns(changed).drop("is_changed")


def add(rows: DataFrame, like: Column, at_ms: int, **columns: object) -> DataFrame:
    """Add rows like others, but at another time, and with other values."""
    values = {"time_ms": at_ms, "asked_ms": at_ms - 1, "sequence": at_ms, **columns}
    added = {name: _value(name, new) for name, new in values.items()}
    return rows.unionByName(rows.where(like).withColumns(added))


def repeat(rows: DataFrame, like: Column, times: Mapping[int, int], **columns: object) -> DataFrame:
    """Return rows like others, once for each of these generations, at its time.

    One table for all: a plan that adds rows again and again doubles each time.
    """
    each = F.create_map(*(F.lit(one) for pair in times.items() for one in pair))
    values = {"asked_ms": "time_ms - 1", "sequence": "time_ms", **columns}
    return (
        rows.where(like)
        .drop("generation", "time_ms")
        .select("*", F.explode(each).alias("generation", "at_ms"))
        .withColumn("time_ms", F.col("at_ms").cast("bigint"))
        .withColumns({name: _value(name, new) for name, new in values.items()})
        .select(*COLUMNS)
    )


def _value(name: str, new: object) -> Column:
    value = F.expr(new) if isinstance(new, str) else F.lit(new)
    return value.cast(COLUMNS[name].type)


def rebalance(rows: DataFrame, times: Mapping[int, int]) -> DataFrame:
    """Let the group have further generations at these times, with the assignment of the fourth."""
    has_ended = (F.col("life") == 1) & (
        (F.col("protocol").isin(*HAS_STATIC) & (F.col("member") == f"m-{RESTARTER}"))
        | ((F.col("protocol") == "classic") & (F.col("member") == f"m-{TWIN}"))
    )
    last = is_kind(Kind.ASSIGNED) & (F.col("generation") == 4) & ~has_ended
    newest = [F.when(F.col("time_ms") > times[each], each) for each in sorted(times, reverse=True)]
    is_told = is_kind(Kind.JOINED, Kind.ASSIGNED, Kind.HEARTBEAT, FINAL)
    told = F.when(is_told, F.coalesce(*newest, "generation")).otherwise(F.col("generation"))
    return rows.withColumn("generation", told.cast("int")).unionByName(
        repeat(rows, last, times, revoked="null")
    )


def answer(rows: DataFrame, like: Column, at_ms: int, kind: str, error: str) -> DataFrame:
    """Add the answer with an error to a member."""
    none = "null"
    return add(rows, like, at_ms, kind=f"'{kind}'", error=f"'{error}'", assigned=none, owned=none,
               revoked=none)  # fmt: skip


def swap(rows: DataFrame, generation: int, one: int, another: int) -> DataFrame:
    """Let two members change places in a generation, and in the end."""
    last = (is_kind(Kind.ASSIGNED) & (F.col("generation") == generation)) | is_kind(FINAL)
    for member, owner in ((one, another), (another, one)):
        where = last & (F.col("member") == f"m-{member}")
        new = f"array('t-{2 * owner}', 't-{2 * owner + 1}')"
        rows = change(rows, where, owned=new, assigned=f"if(assigned is null, null, {new})")
    return rows
