"""The ports that docs/operations.md tells a firewall to open are those of the files in deploy/."""

import re
from pathlib import Path

import pytest

from protocol.config import read_server_configs
from protocol.listeners import listener_addresses
from protocol.properties import parse_properties
from tests.deploy.prune import ROOT, manifests
from tests.deploy.test_systemd import SYSTEMD, commands

PAGE = (ROOT / "docs" / "operations.md").read_text()
ROW = re.compile(
    r"^\| (\d{4,})(?:\u2013(\d{4,}))?(?: \+ i)?(?:: `([a-z.]+)`)? \| (.*)$", re.MULTILINE
)
FLAG = re.compile(r"`(--[a-z-]+)`")
RAY_UNITS = [SYSTEMD / f"rollcall-ray-{name}.service" for name in ("head", "worker")]


def documented() -> tuple[dict[str, int], dict[str, int]]:
    """Return the ports of the page: by config, and by flag of ``ray start``."""
    configs, flags = {}, {}
    for first, last, config, rest in ROW.findall(PAGE):
        if config:
            configs[config] = int(first)
            continue
        flags |= dict(zip(FLAG.findall(rest), map(int, filter(None, (first, last))), strict=True))
    return configs, flags


@pytest.mark.parametrize("unit", RAY_UNITS, ids=lambda unit: unit.name)
def test_the_page_has_rays_ports_of_the_units(unit: Path) -> None:
    _, flags = documented()
    (started,) = (words for words in commands(unit) if words[1] == "start")
    given = dict(word.split("=", 1) for word in started if word.startswith("--") and "=" in word)
    if "--address" in given:
        assert given["--address"].endswith(f":{flags.pop('--port')}")
    used = {flag: int(value) for flag, value in given.items() if flag.endswith("-port")}
    if "--port" in given:
        used["--port"] = int(given["--port"])
    assert used == flags


def test_the_page_has_our_ports_of_the_configuration() -> None:
    configs, _ = documented()
    (config_map,) = manifests("ConfigMap")
    kuberay = config_map["data"]["server.properties"]
    for text in ((ROOT / "deploy" / "server.properties").read_text(), kuberay):
        found = read_server_configs(parse_properties(text)).configs
        (listener,) = listener_addresses(found, 0, "10.0.0.1", 0)
        ours = {name: found.integer(name) for name in ("replica.port", "console.port")}
        assert {"listeners": listener.bind_port, **ours} == configs
