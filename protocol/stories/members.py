"""Who the members of a story are: named so that no two of them have the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.stories.story import Who, cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from protocol.groups.facts import MemberEvent, NamedMember, RebalanceEnded
    from protocol.records import MemberMetadata


def of_event(event: MemberEvent | RebalanceEnded) -> Who:
    """Return the member of an event, or the one that caused a classic group's rebalance."""
    return Who(
        name=cut(event.group_instance_id or event.client_id or event.member_id),
        member_id=cut(event.member_id),
        instance_id=cut(event.group_instance_id),
        client_id=cut(event.client_id),
        host=cut(event.client_host),
        software=cut(event.client_software),
    )


def of_classic(member: MemberMetadata) -> Who:
    """Return a member of a classic group's record."""
    return Who(
        name=cut(member.group_instance_id or member.client_id or member.member_id),
        member_id=cut(member.member_id),
        instance_id=cut(member.group_instance_id),
        client_id=cut(member.client_id),
        host=cut(member.client_host),
    )


def of_record(member_id: str, metadata: Any) -> Who:
    """Return a member of a group that is not classic; share groups have no instance ids."""
    instance_id = getattr(metadata, "instance_id", None)
    return Who(
        name=cut(instance_id or metadata.client_id or member_id),
        member_id=cut(member_id),
        instance_id=cut(instance_id),
        client_id=cut(metadata.client_id),
        host=cut(metadata.client_host),
    )


def of_named(members: Iterable[NamedMember]) -> list[Who]:
    """Return some members of a group that is not classic."""
    return [of_record(member_id, metadata) for member_id, metadata in members]


class Names:
    """The members that take part in a story; one whose name another has, too, gets its member id.

    Clients often have the same client id; member ids are unique.
    """

    def __init__(self, members: Mapping[str, Who]) -> None:
        """``members`` are named by the keys under which others ask for them."""
        self._members = dict(members)
        self._ids: dict[str, set[str]] = {}
        for who in members.values():
            self._ids.setdefault(who.name, set()).add(who.member_id)

    def add(self, who: Who) -> None:
        """Add a member that was not among them."""
        self._ids.setdefault(who.name, set()).add(who.member_id)

    def unique(self, who: Who) -> Who:
        """Return a member with a name that no other member of the story has."""
        if len(self._ids.get(who.name, ())) < 2 or not who.member_id or who.instance_id:
            return who
        return Who(
            name=who.member_id,
            member_id=who.member_id,
            client_id=who.client_id,
            host=who.host,
            software=who.software,
        )

    def of(self, key: str | None) -> str:
        """Return the name of a member by its key; "" for nobody."""
        if not key:
            return ""
        who = self._members.get(key)
        return cut(key) if who is None else self.unique(who).name

    def who(self, key: str) -> Who:
        """Return a member by its key."""
        return self.unique(self._members.get(key) or Who(name=cut(key), member_id=cut(key)))
