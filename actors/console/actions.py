"""What the console changes, if it may: members are removed, and drills are carried out.

Each action has a page that says what it does and asks; only a form of that page carries it out.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from actors.console import views
from actors.console.drawing import member_name
from actors.console.drills import DRILLS, links_of_node, links_of_partition, targets
from actors.console.forms import read_form, sentence
from actors.console.source import ActionRefusedError
from protocol.stories.sentence import named
from protocol.stories.story import GROUP_ID_MAX, TEXT_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request

    from actors.console.drills import DrillLink, OfferedDrill
    from actors.console.hub import Hub
    from actors.console.source import Member

_log = logging.getLogger("rollcall.console")

REASON: Final = "removed by an operator, in the console"
ID_MAX: Final = 4 * GROUP_ID_MAX
"""Characters of an id in an address; no group or member has a longer one."""

NUMBER_MAX: Final = 9
"""Characters of a number in an address."""

NO_ACTIONS: Final = "Nothing is changed here, unless with console.actions.enable=true."
NO_MEMBER: Final = "There is no such member."
NO_DRILL: Final = "There is no such drill, node or partition."


class Subject:
    """A drill and what it is of, as its page shows it; ``to`` are the nodes to choose from."""

    def __init__(
        self,
        drill: OfferedDrill,
        of: int,
        title: str,
        links: Sequence[DrillLink],
        to: Sequence[int] = (),
    ) -> None:
        self.drill = drill
        self.of = of
        self.title = title
        self.to = to
        self.is_offered = any(each.text == drill.link for each in links)


class Actions:
    """The pages of actions, and what their forms do."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def routes(self) -> list[Route]:
        """Return where they are."""
        return [
            Route("/remove", self._ask_remove),
            Route("/remove", self._remove, methods=["POST"]),
            Route("/drill", self._ask_drill),
            Route("/drill", self._drill, methods=["POST"]),
        ]

    def _page(self, template: str, status: int = HTTPStatus.OK, **values: Any) -> Response:
        known = {"problem": "", "watched": self._hub.source.title, "place": "", "events": ""}
        return HTMLResponse(views.render(template, **{**known, **values}), status)

    # --- members

    async def _ask_remove(self, request: Request) -> Response:
        if not self._hub.source.may_act:
            return sentence(NO_ACTIONS, HTTPStatus.FORBIDDEN)
        group_id = request.query_params.get("id", "")[:ID_MAX]
        member_id = request.query_params.get("member", "")[:ID_MAX]
        member = await self._member(group_id, member_id)
        if member is None:
            return sentence(NO_MEMBER, HTTPStatus.NOT_FOUND)
        return self._page(
            "remove.html",
            title="Remove a member",
            group_id=group_id,
            member_id=member_id,
            name=named(member_name(member)),
            reason=REASON,
        )

    async def _remove(self, request: Request) -> Response:
        if not self._hub.source.may_act:
            return sentence(NO_ACTIONS, HTTPStatus.FORBIDDEN)
        form = await read_form(request)
        if isinstance(form, Response):
            return form
        group_id, member_id = form.get("id", "")[:ID_MAX], form.get("member", "")[:ID_MAX]
        member = await self._member(group_id, member_id)
        if member is None:
            return sentence(NO_MEMBER, HTTPStatus.NOT_FOUND)
        reason = form.get("reason", "")[:TEXT_MAX] or REASON
        await self._hub.source.remove(group_id, member, reason)
        about = {"group": group_id, "member": member.member_id}
        who = named(member_name(member))
        _log.info("%s of group %s was removed", who, named(group_id), extra=about)
        return RedirectResponse(views.group_link(group_id) or "/", HTTPStatus.SEE_OTHER)

    async def _member(self, group_id: str, member_id: str) -> Member | None:
        group = await self._hub.group(group_id)
        members = () if group is None else group.members
        return next((each for each in members if each.member_id == member_id), None)

    # --- drills

    async def _ask_drill(self, request: Request) -> Response:
        if not self._hub.source.may_drill:
            return sentence(NO_ACTIONS, HTTPStatus.FORBIDDEN)
        subject = await self._subject(request.query_params)
        if subject is None:
            return sentence(NO_DRILL, HTTPStatus.NOT_FOUND)
        return self._about(subject)

    async def _drill(self, request: Request) -> Response:
        if not self._hub.source.may_drill:
            return sentence(NO_ACTIONS, HTTPStatus.FORBIDDEN)
        form = await read_form(request)
        if isinstance(form, Response):
            return form
        subject = await self._subject(form)
        if subject is None:
            return sentence(NO_DRILL, HTTPStatus.NOT_FOUND)
        arguments = [subject.of]
        if not subject.drill.states:
            to = _number(form.get("to", ""))
            if to is None or to not in subject.to:
                return sentence(NO_DRILL, HTTPStatus.NOT_FOUND)
            arguments.append(to)
        try:
            said = await self._hub.source.drill(subject.drill.name, *arguments)
        except ActionRefusedError as error:
            _log.warning("the drill %s %s was refused: %s", subject.drill.name, arguments, error)
            return self._about(subject, HTTPStatus.CONFLICT, str(error))
        _log.warning("drill: %s", said)
        self._hub.acted(said)
        return RedirectResponse("/cluster", HTTPStatus.SEE_OTHER)

    def _about(self, subject: Subject, status: int = HTTPStatus.OK, problem: str = "") -> Response:
        title = subject.drill.title
        return self._page("drill.html", status, title=title, subject=subject, problem=problem)

    async def _subject(self, fields: Mapping[str, str]) -> Subject | None:
        """Return what a drill is of, as far as the cluster has it."""
        drill, of = DRILLS.get(fields.get("do", "")), _number(fields.get("of", ""))
        if drill is None or of is None:
            return None
        cluster = await self._hub.cluster()
        if drill.states:
            for node in cluster.nodes:
                if node.node_id == of:
                    title = f"Coordinator {of} at {node.address}, {node.state}"
                    return Subject(drill, of, title, links_of_node(node))
            return None
        for each in cluster.partitions:
            if each.number == of:
                leader = "nobody" if each.leader is None else f"node {each.leader}"
                title = f"{each.title}, led by {leader}"
                return Subject(drill, of, title, links_of_partition(each), targets(each))
        return None


def _number(text: str) -> int | None:
    try:
        return int(text) if len(text) <= NUMBER_MAX else None
    except ValueError:
        return None
