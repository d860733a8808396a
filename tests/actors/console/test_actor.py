"""The console's actor: where it listens, and that it tells the controller. No Ray runs here."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from actors.cluster.ray_peers import CONTROLLER
from actors.cluster.spec import Address, ClusterSpec, on_one_host
from actors.console import actor as actor_module
from actors.console.actor import ConsoleActor
from tests.actors.console.test_server import get
from tests.waiting import patient

HOST = "127.0.0.1"


class Controller:
    """Calls to actors, of which the controller answers after a while."""

    told: list[Any]

    def __init__(self) -> None:
        self.told = []
        self._is_there = False

    async def ask(self, name: str, method: str, *arguments: Any, wait_s: float = 0) -> Any:
        """Refuse the first call."""
        if not self._is_there or name != CONTROLLER:
            self._is_there = True
            raise ValueError
        if method == "console_at":
            self.told += arguments
        return {"cluster_id": "c"}


def test_it_keeps_its_port_if_it_can_and_tells_the_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = Controller()
    monkeypatch.setattr(actor_module, "Actors", lambda: controller)
    monkeypatch.setattr(actor_module, "TELL_S", 0.01)
    nicer: list[int] = []
    monkeypatch.setattr(actor_module, "lower_priority", nicer.append)
    monkeypatch.setattr(actor_module, "log_to_file", lambda *_: None)
    with socket.create_server((HOST, 0)) as taken:
        wanted = Address(host=HOST, port=taken.getsockname()[1])
        spec = ClusterSpec(
            cluster_id="c",
            places=on_one_host(HOST, (1,)),
            console=wanted,
            data_dir=str(tmp_path),
            overrides={"console.actions.enable": "true"},
            workers=0,
        )

        async def test() -> None:
            actor = ConsoleActor(spec)
            assert nicer == [actor_module.NICENESS]
            address = await actor.address()
            assert address.port != wanted.port
            assert actor._telling is not None
            await actor._telling
            assert controller.told == [address]
            answer = await get(address.port, "/status.json")
            assert json.loads(answer.rpartition(b"\r\n\r\n")[2]) == {"cluster_id": "c"}
            assert b"No coordinator answers." in await get(address.port, "/")
            await actor.stop()

        asyncio.run(asyncio.wait_for(test(), patient(60)))
