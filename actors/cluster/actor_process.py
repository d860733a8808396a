"""The process of an actor, as Ray knows it: one class with one call, whatever the actor is.

Ray pickles an actor's class with the list of its methods, and keeps it as long as the actor exists.
A process of another version could not start with methods that it does not have, and nobody could
call those that it has in addition. So Ray is given this class, which never changes, and the class
of the actor is found where its process runs.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from actors.cluster.exchange import Exchanged
from actors.installation import installed_version

if TYPE_CHECKING:
    from collections.abc import Sequence


class ActorProcess:
    """Makes one value of a plain class, and passes calls to it."""

    def __init__(self, plain: type, arguments: Sequence[Any]) -> None:
        self._plain = plain(*arguments)

    async def call(self, method: str, arguments: Sequence[Any]) -> Exchanged:
        """Call a method; raises what it raises."""
        found = getattr(self._plain, method, None)
        if found is None:
            raise NotImplementedError(
                f"version {installed_version()} of Rollcall runs there, and has no call {method!r}"
            )
        answer = found(*arguments)
        return Exchanged(await answer if inspect.isawaitable(answer) else answer)


def named_after(plain: type) -> type:
    """Return :class:`ActorProcess` with the name of a plain class, for process titles."""
    return type(plain.__name__, (ActorProcess,), {})


class ActorHandle:
    """The handle of an actor: ``handle.status.remote()`` calls ``status`` of its plain value."""

    def __init__(self, ray_handle: Any) -> None:
        self.ray_handle = ray_handle

    def __getattr__(self, method: str) -> RemoteMethod:
        """Return one of its methods; whether it exists is seen by the call."""
        return RemoteMethod(self.ray_handle, method)


class RemoteMethod:
    """A method of an actor."""

    def __init__(self, ray_handle: Any, method: str) -> None:
        self._ray_handle = ray_handle
        self._method = method

    def remote(self, *arguments: object) -> Any:
        """Call it; return Ray's reference to the answer."""
        return self._ray_handle.call.remote(self._method, Exchanged(arguments))
