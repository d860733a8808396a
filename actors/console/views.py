"""The pages as sections of HTML, each with an id: a browser replaces those that changed.

Templates escape every value; names are made printable first, so that no name can look like another.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from jinja2 import DictLoader, Environment, StrictUndefined

from actors.console.assets import directory
from actors.console.drawing import by_number, member_name, ownership, steps
from actors.console.drills import links_of_node, links_of_partition
from actors.console.selection import AT_REST, select
from protocol.stories.sentence import named, person, plain, quoted, seconds, short_sentence
from protocol.stories.storms import find_storm, storm_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from actors.console.hub import ClusterChange
    from actors.console.selection import GroupSelection
    from actors.console.source import Cluster, GroupDetail, GroupList, Member
    from protocol.stories.story import Happened, RebalanceStory

STORIES_SHOWN: Final = 20
MEMBERS_SHOWN: Final = 100
OFFSETS_SHOWN: Final = 200
UNITS_NAMED: Final = 8
"""Partitions that are named in a row of a table; the others are counted."""

LINK_MAX: Final = 8_000
"""Characters of an address that the console takes, in the head of a request; ids may be longer."""

TYPES: Final = ("classic", "consumer", "share", "streams")


@cache
def environment() -> Environment:
    """Return the templates; a value that is missing is an error, and every value is escaped."""
    files = {
        each.name: each.read_text("utf-8")
        for each in directory("templates").iterdir()
        if each.name.endswith(".html")
    }
    made = Environment(
        loader=DictLoader(files),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "plain": plain,
        "named": named,
        "moment": moment,
        "seconds": seconds,
        "count": count,
        "person": person,
        "quoted": quoted,
    }
    made.globals["group_link"] = group_link
    return made


def render(template: str, **values: Any) -> str:
    """Return a template with its values."""
    return environment().get_template(template).render(**values)


def group_link(group_id: str) -> str:
    """Return the address of a group's page; "" if it would be too long."""
    return _link("/group?", {"id": group_id})


def _link(path: str, query: Mapping[str, str]) -> str:
    if sum(map(len, query.values())) > LINK_MAX:
        return ""
    link = path + urlencode(query, errors="surrogatepass")
    return link if len(link) <= LINK_MAX else ""


def moment(time_ms: int) -> str:
    """Return a time as people read it."""
    return datetime.fromtimestamp(time_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def count(number: float | None) -> str:
    """Return a number with its thousands apart, or a dash if it is not known."""
    return "\N{EN DASH}" if number is None else f"{number:,}"


def groups_sections(found: GroupList, wanted: GroupSelection) -> dict[str, str]:
    """Return the page of all groups."""
    states: dict[str, int] = {}
    for each in found.groups:
        states[each.state] = states.get(each.state, 0) + 1
    selected = select(found.groups, wanted)
    tiles = {
        "groups": len(found.groups),
        "members": sum(each.members or 0 for each in found.groups),
        "rebalancing": sum(each.state not in AT_REST for each in found.groups),
        "rebalances lately": sum(each.lately or 0 for each in found.groups),
    }
    return {
        "notes": render("notes.html", notes=found.notes),
        "tiles": render("tiles.html", tiles=tiles, states=sorted(states.items())),
        "list": render("groups.html", selected=selected, wanted=wanted, at_rest=AT_REST),
    }


@dataclass(frozen=True, slots=True)
class ShownMember:
    """A member as its row shows it."""

    member: Member
    name: str
    owned: str
    to_come: str
    happened: Happened | None
    link: str


def group_sections(
    group: GroupDetail, now_ms: int, *, can_remove: bool, last: int = STORIES_SHOWN
) -> dict[str, str]:
    """Return the page of one group."""
    storm = find_storm(group.stories, now_ms)
    lines = [] if storm is None else storm_lines(storm)
    members = sorted(group.members, key=lambda each: (member_name(each), each.member_id))
    stories = list(reversed(group.stories[-last:]))
    offsets = sorted(group.offsets, key=lambda each: by_number(each.unit))
    happened = _happened(group.stories)
    rows = [_row(group, each, happened) for each in members[:MEMBERS_SHOWN]]
    lag = group.summary.lag
    return {
        "notes": render("notes.html", notes=group.notes),
        "head": render("group_head.html", group=group, storm=lines, lag=lag),
        "owners": render("owners.html", drawn=ownership(group), group=group),
        "stories": render(
            "stories.html",
            group=group,
            stories=[(each, short_sentence(each), steps(each)) for each in stories],
            more=len(group.stories) - len(stories),
        ),
        "members": render(
            "members.html", rows=rows, more=len(members) - len(rows), can_remove=can_remove
        ),
        "offsets": render(
            "offsets.html", offsets=offsets[:OFFSETS_SHOWN], more=len(offsets[OFFSETS_SHOWN:])
        ),
    }


def _row(group: GroupDetail, member: Member, happened: Mapping[str, Happened]) -> ShownMember:
    target = member.target
    to_come = [each for each in target or () if each not in set(member.owned)]
    query = {"id": group.summary.group_id, "member": member.member_id}
    return ShownMember(
        member=member,
        name=named(member_name(member)),
        owned=_listed(member.owned),
        to_come=_listed(to_come),
        happened=happened.get(member.member_id),
        link=_link("/remove?", query),
    )


def _listed(units: Sequence[str]) -> str:
    ordered = sorted(units, key=by_number)
    words = ", ".join(named(each) for each in ordered[:UNITS_NAMED])
    more = len(ordered) - UNITS_NAMED
    return f"{words} and {more} more" if more > 0 else words


def _happened(stories: Sequence[RebalanceStory]) -> dict[str, Happened]:
    """Return what last happened to each member, as far as stories tell it."""
    return {each.who.member_id: each for story in stories for each in story.events}


def cluster_sections(
    cluster: Cluster, happened: Sequence[ClusterChange], *, may_drill: bool = False
) -> dict[str, str]:
    """Return the page of the cluster."""
    nodes = [(each, links_of_node(each) if may_drill else ()) for each in cluster.nodes]
    partitions = [
        (each, links_of_partition(each) if may_drill else ()) for each in cluster.partitions
    ]
    titles = list(dict.fromkeys(title for node in cluster.nodes for title in node.facts))
    return {
        "notes": render("notes.html", notes=cluster.notes),
        "head": render("cluster_head.html", cluster=cluster),
        "nodes": render("nodes.html", nodes=nodes, titles=titles, may_drill=may_drill),
        "partitions": render("partitions.html", partitions=partitions, may_drill=may_drill),
        "workers": render("workers.html", workers=cluster.workers),
        "happened": render("happened.html", changes=list(reversed(happened))),
    }


def changed(sections: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Return the sections that differ from those that a browser has."""
    return dict(_changed(sections, known))


def _changed(sections: Mapping[str, str], known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in sections.items():
        if known.get(name) != text:
            yield name, text
