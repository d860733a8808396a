"""A real Prometheus scrapes the console of a real cluster, and answers queries."""

import json
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import which

import pytest
from confluent_kafka import Consumer

from tests.conftest import RunningCluster, rollcall
from tests.promtool import check_metrics
from tests.waiting import WITHIN_S, until

pytestmark = pytest.mark.skipif(
    which("prometheus") is None, reason="needs Prometheus (Debian's package prometheus)"
)

CONFIG = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs: [{{job_name: rollcall, static_configs: [{{targets: ["{target}"]}}]}}]
"""
RULES = Path(__file__).parents[3] / "docs" / "monitoring" / "alerts.yml"


@pytest.fixture
def prometheus(cluster: RunningCluster, tmp_path: Path) -> Iterator[str]:
    target = cluster.ready["console"].removeprefix("http://")
    config = tmp_path / "prometheus.yml"
    config.write_text(CONFIG.format(rules=RULES, target=target))
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = f"127.0.0.1:{found.getsockname()[1]}"
    command = [
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={address}",
    ]  # fmt: skip
    with (tmp_path / "prometheus.log").open("w") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait(WITHIN_S)


def ask(prometheus: str, path: str, **query: str) -> list[dict[str, object]]:
    url = f"{prometheus}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(url, timeout=WITHIN_S) as answer:
            data = json.load(answer)["data"]
    except urllib.error.URLError:
        return []
    found: list[dict[str, object]] = data["result"] if "result" in data else data["groups"]
    return found


def healths(prometheus: str) -> set[str]:
    """Return what Prometheus says of the rules."""
    groups = ask(prometheus, "rules")
    return {rule["health"] for group in groups for rule in group["rules"]}  # type: ignore[attr-defined]


def test_a_real_prometheus_says_who_rebalanced_and_why(
    cluster: RunningCluster, prometheus: str
) -> None:
    rollcall(
        "topics", "--create", "--topic", "scraped", "--partitions", "2",
        "--bootstrap-server", cluster.bootstrap,
    )  # fmt: skip
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "scraped"}
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe(["scraped"])
        is_member = 'kafka_consumergroup_members{consumergroup="scraped"} == 1'
        until(
            lambda: consumer.poll(0.1) is None and ask(prometheus, "query", query=is_member),
            WITHIN_S,
            "the member is counted",
        )
    joined = (
        "sum(rollcall_rebalance_duration_seconds_count"
        '{group_type="classic", trigger="joined"}) >= 1'
    )
    elected = 'sum(rollcall_leader_elections_total{kind="groups"}) >= 3'
    for query in (joined, "sum(rollcall_coordinator_up) == 3", elected):
        until(lambda query=query: ask(prometheus, "query", query=query), WITHIN_S, query)  # type: ignore[misc]
    until(lambda: healths(prometheus) == {"ok"}, WITHIN_S, "every rule can be evaluated")
    with urllib.request.urlopen(f"{cluster.ready['console']}/metrics", timeout=WITHIN_S) as page:
        text = page.read().decode()
    assert 'kafka_consumergroup_members{consumergroup="scraped"' in text
    check_metrics(text)
