"""Under which names browsers may ask the console: no page of another site can take one of them."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest

from actors.cluster.spec import Address, ClusterSpec, on_one_host
from actors.console.app import HEADERS, ConsolePages
from actors.console.hosts import HOSTS, KnownHosts, hosts_of
from actors.console.hub import Hub
from protocol.config import ConfigError, Configs
from tests.actors.console.asked import Answer, ask
from tests.actors.console.sources import NOW_MS, FakeSource

FOREIGN = "evil.example:9292"
KNOWN = (
    "127.0.0.1", "127.0.0.1:9292", "10.0.0.4:9292", "[::1]", "[::1]:9292", "[fe80::1]:80",
    "localhost", "localhost:9292", "LocalHost.:9292",
    f"{socket.gethostname()}:9292", socket.gethostname().upper(), f"{socket.getfqdn()}:9292",
    "kafka-0.example.com:9292", "rollcall.example.com", "Rollcall.Example.COM.:443",
)  # fmt: skip
UNKNOWN = (
    FOREIGN, "evil.example", "example.com", "localhost.evil.example", "127.0.0.1.evil.example",
    "127.0.0.1@evil.example", "evil.example:80@127.0.0.1", "2130706433", "127.1", "0x7f.1",
    "::1", "[::1", "[evil.example]", "", ":9292", "rollcall.example.com.evil.example:9292",
    "xn--rollcall", "127.0.0.1:9292:1", "127.0.0.1:", "127.0.0.1:x", "\u0661\u0662\u0667.0.0.1",
    "127.0.0.1, evil.example", "x" * 9_000, "[fe80::1%25evil.example]:80",
)  # fmt: skip
TARGETS = (
    "/", "/group?id=orders", "/cluster", "/events?page=groups", "/metrics", "/status.json",
    "/assets/console.js", "/no", "/remove?id=orders&member=web-3-id", "/drill?do=kill&of=1",
)  # fmt: skip


def known() -> KnownHosts:
    found = KnownHosts(("rollcall.example.com", "kafka-0.example.com"))
    found.learn()
    return found


def asked(target: str, host: str, method: str = "GET", **more: str) -> tuple[Answer, FakeSource]:
    source = FakeSource()
    source.may_act = source.may_drill = True

    async def run() -> Answer:
        hub = Hub(source, lambda: NOW_MS, lambda: NOW_MS)
        body = more.pop("body", "").encode()
        return await ask(ConsolePages(hub, known()).app(), target, method, body, host=host, **more)

    return asyncio.run(run()), source


@pytest.mark.parametrize("host", KNOWN)
def test_addresses_and_names_of_this_machine_are_known(host: str) -> None:
    assert known().has(host)
    assert asked("/", host)[0].status == 200


@pytest.mark.parametrize("host", UNKNOWN, ids=lambda each: each[:40].encode("unicode_escape"))
def test_other_names_are_not(host: str) -> None:
    assert not known().has(host)


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_served_under_another_name(target: str) -> None:
    answer, source = asked(target, FOREIGN)
    assert answer.status == 421
    assert HOSTS in answer.text
    assert answer.text.count("\n") == 1
    assert HEADERS.items() <= answer.headers.items()
    assert not source.asked


@pytest.mark.parametrize(
    ("target", "form"),
    [
        ("/drill", {"do": "kill", "of": "1"}),
        ("/remove", {"id": "orders", "member": "web-3-id", "reason": "bye"}),
    ],
)
def test_a_name_that_leads_here_only_today_can_do_nothing(
    target: str, form: dict[str, str]
) -> None:
    """DNS rebinding: to the browser, page and console are then of one origin."""
    answer, source = asked(
        target,
        FOREIGN,
        "POST",
        body=urlencode(form),
        origin=f"http://{FOREIGN}",
        sec_fetch_site="same-origin",
        content_type="application/x-www-form-urlencoded",
    )
    assert answer.status == 421
    assert not source.drilled
    assert not source.removed


def test_the_config_and_the_names_of_coordinators_are_known(tmp_path: Path) -> None:
    (place,) = on_one_host("10.0.0.4", (9092,))
    named = replace(place, advertised=Address(host="kafka-0.example.com", port=9092))
    spec = ClusterSpec(
        cluster_id="c",
        places=(named,),
        console=Address(host="", port=0),
        data_dir=str(tmp_path),
        overrides={HOSTS: "rollcall.example.com, metrics.example.com"},
        workers=0,
    )
    names = KnownHosts(hosts_of(spec))
    for host in ("rollcall.example.com", "metrics.example.com", "kafka-0.example.com:9292"):
        assert names.has(host), host
    assert not names.has(FOREIGN)


@pytest.mark.parametrize("text", ["http://x", "x:9292", "a b", "x/y", "*", "[::1]"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=HOSTS):
        Configs({HOSTS: f"good.example.com,{text}"})


def test_the_sentence_names_the_setting_that_there_is() -> None:
    assert "--console-hosts" in KnownHosts(setting="--console-hosts").refusal
