"""The commands of docs/operations.md, and for each the test that runs it.

A command is its words without values, as ``rollcall balance --dry-run``. An option that the page
names by itself in backquotes has a row of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).parent.parent.parent
PAGE: Final = ROOT / "docs" / "operations.md"

_BLOCK = re.compile(r"^ *```\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"`([^`]+)`")
_COMMENT = re.compile(r" +# +|; or: |or: ")
_COMMAND = re.compile(
    r"(?:/opt/rollcall/bin/)?(rollcall|ray|systemctl|pip|python -m|kafka-.*?\.sh) "
)
_VERB = re.compile(r"(?:^| )([a-z]+)(?= |$)")
_OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")
_VARIABLE = re.compile(r"\b(RAY_\w+)=")


@dataclass(frozen=True, slots=True)
class Run:
    """Where a command is run: by ``test``, with words that ``test`` and ``through`` have.

    All are ``file::name`` or ``file::Class.name``, of a function or of a value, or a file of
    deploy/. ``words`` are those that must be there; empty: those of the command.
    """

    test: str
    through: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


def commands() -> Iterator[str]:
    """Yield the commands and options of the page."""
    text = PAGE.read_text()
    for block in _BLOCK.findall(text):
        for line in block.splitlines():
            yield from (f"export {name}" for name in _VARIABLE.findall(line))
            yield from filter(None, map(_command, _COMMENT.split(line.strip())))
    for quoted in _QUOTED.findall(_BLOCK.sub("", text)):
        words = " ".join(quoted.split())
        if option := _OPTION.match(words):
            yield option[0]
        elif command := _command(words):
            yield command


def _command(line: str) -> str:
    """Return a line without values; empty if it is no command."""
    found = _COMMAND.match(line)
    if not found:
        return ""
    rest = line[found.end() :]
    verb = _VERB.search(rest)
    options = dict.fromkeys(_OPTION.findall(rest))
    return " ".join([found[1], *([verb[1]] if verb else []), *options])


_CLUSTER = "bench/hosts/clusters.py::HostCluster"
_RAY = "bench/hosts/ray_hosts.py::RayOnHosts"
_STAGE = "bench/host_drills/stage.py::HostStage"
_BY_RAY = f"{_CLUSTER}.rollcall"
_UP = (f"{_CLUSTER}.up", _BY_RAY)
_START = (f"{_RAY}.start", f"{_RAY}.begin")
_ENVIRONMENT = (f"{_RAY}.start", f"{_RAY}.begin", f"{_RAY}.environment", f"{_RAY}.__init__")
_DURABLE = (*_ENVIRONMENT, "actors/cluster/ray_node.py::_QUIET")
_UNIT_OF_RAY = (
    "tests/hosts/units.py::RayByUnits.start",
    "tests/hosts/units.py::RayByUnits.begin",
    "tests/hosts/units.py::RayByUnits.run",
    "tests/hosts/units.py::HEAD",
    "deploy/systemd/rollcall-ray-head.service",
)
_UNIT_OF_CLUSTER = (
    "tests/hosts/units.py::start_cluster",
    "tests/hosts/units.py::CLUSTER",
    "deploy/systemd/rollcall.service",
)
_UPGRADING = (
    "tests/hosts/short_upgrade.py::main",
    "tests/hosts/short_upgrade.py::upgrade",
    f"{_STAGE}.install",
    f"{_STAGE}.command",
    _BY_RAY,
)
_LIVE_CLUSTER = ("tests/conftest.py::RunningCluster.start",)

_HOSTS = (
    "tests/hosts/test_clusters.py::"
    "test_hosts_vanish_return_and_are_replaced_and_no_member_is_rebalanced"
)
_HEAD = (
    "tests/hosts/test_head.py::"
    "test_without_the_head_of_ray_members_go_on_and_after_a_reboot_of_all_hosts_too"
)
_BALANCE = (
    "tests/hosts/test_balance.py::"
    "test_a_host_that_joins_gets_coordinators_and_no_member_is_rebalanced"
)
_RESTORE = "tests/hosts/test_restore.py::test_a_backup_is_restored_on_three_hosts"
_UPGRADE = (
    "tests/hosts/test_upgrade.py::"
    "test_hosts_are_upgraded_and_go_back_and_the_level_is_raised_once_all_are_new"
)
_DRILL = "tests/hosts/test_drill.py::test_a_drill_on_hosts_ends_with_a_clean_verdict"
_KAFKA = "tests/exchange/test_with_kafka.py::test_groups_move_from_kafka_to_rollcall_and_back"
_ONE_MACHINE = (
    "tests/actors/cluster/test_ray_start.py::test_up_status_and_down_find_each_other_through_ray"
)
_WHEEL = "tests/test_wheel.py::test_it_runs_a_cluster_and_serves_a_client_from_another_directory"
_INSTALLED = "tests/test_wheel.py::stranger"
_PROBES = (
    "tests/actors/cli/test_exit_codes.py::"
    "test_a_coordinator_that_sees_no_leader_is_live_and_not_ready"
)
_DRAIN = (
    "tests/actors/deployment/test_failover.py::"
    "test_a_drained_coordinator_leads_nothing_until_the_drain_ends"
)
_FEATURES = (
    "tests/clients/test_java_tools.py::"
    "test_kafka_features_shows_raises_and_lowers_the_feature_level"
)
_FEATURES_TOOL = (
    "tests/clients/test_java_tools.py::described",
    "tests/clients/test_java_tools.py::features",
)
_DUMP = "tests/exchange/test_dump_log.py::test_kafka_dump_log_decodes_a_backup"
_TAKEN_AWAY = ("tests/hosts/test_balance.py::take_away", _BY_RAY)
_OTHER_FACTOR = (
    "tests/actors/cli/test_exchange.py::test_a_restored_cluster_may_have_another_number_of_replicas"
)
_RECOVER = "tests/actors/backup/test_recovering.py::test_what_the_command_recovers_is_restored"
_WRONG_DRILLS = (
    "tests/bench/test_host_drills.py::test_what_cannot_be_run_is_bad_input_said_in_one_sentence"
)

RUNS: Final[Mapping[str, Run]] = {
    # Day one
    "export RAY_AUTH_MODE": Run(_HEAD, _ENVIRONMENT),
    "export RAY_AUTH_TOKEN_PATH": Run(_HEAD, _ENVIRONMENT),
    "export RAY_gcs_storage": Run(_HEAD, _DURABLE),
    "export RAY_gcs_storage_path": Run(
        _HEAD, (*_ENVIRONMENT, "actors/cluster/ray_node.py::STORE_PATH")
    ),
    "export RAY_gcs_rpc_server_reconnect_timeout_s": Run(_HEAD, _DURABLE),
    "export RAY_worker_niceness": Run(_HEAD, _DURABLE),
    "ray start": Run(_HOSTS, _START),
    "ray start --head": Run(_HEAD, _START),
    "ray start --head --port --node-ip-address": Run(_HOSTS, _START),
    "ray start --address": Run(_HOSTS, _START),
    "ray start --address --node-ip-address": Run(_HOSTS, _START),
    "rollcall drill --hosts --spark-hosts --members": Run(
        "tests/hosts/test_spark_hosts.py::test_members_on_spark_hosts_ride_through_the_loss_of_a_host",
        words=("--spark-hosts",),
    ),
    "--tasks": Run(
        "tests/hosts/test_spark_hosts.py::test_spark_submit_runs_the_load_on_two_workers_and_counts_the_members_of_a_lost_one",
        ("tests/hosts/test_spark_hosts.py::begin_load",),
        words=("--tasks",),
    ),
    "rollcall log --data-dir --node": Run(
        "tests/actors/cli/test_log_dump.py::test_state_and_log_are_decoded",
        ("tests/actors/cli/test_log_dump.py::dump",),
        words=("log", "dump", "--data-dir", "--node"),
    ),
    "--offset": Run("tests/actors/cli/test_log_dump.py::test_what_is_shown_can_be_limited"),
    "--max-records": Run("tests/actors/cli/test_log_dump.py::test_what_is_shown_can_be_limited"),
    "rollcall up": Run(_KAFKA, _LIVE_CLUSTER),
    "rollcall up --set": Run(_HOSTS, _UP),
    "rollcall up --data-dir": Run(_KAFKA, _LIVE_CLUSTER),
    "rollcall up --address --data-dir --set": Run(_HOSTS, _UP),
    "rollcall up --address --data-dir --detach --set": Run(_HOSTS, _UP),
    "rollcall up --config": Run(_RESTORE, _UNIT_OF_CLUSTER),
    "rollcall up --hosts": Run(_RESTORE, _UNIT_OF_CLUSTER),
    "--address": Run(_HOSTS, _UP),
    "--detach": Run(_HOSTS, _UP),
    "rollcall down": Run(_HOSTS, (f"{_CLUSTER}.down",)),
    "rollcall down --address": Run(_ONE_MACHINE),
    # Services, and their ports
    "python -m venv": Run(_WHEEL, (_INSTALLED,), ("venv",)),
    "systemctl enable --now": Run(_RESTORE, _UNIT_OF_RAY, ("ExecStart",)),
    "systemctl stop": Run(_RESTORE, _UNIT_OF_RAY, ("ExecStop",)),
    "systemctl disable --now": Run(_RESTORE, _UNIT_OF_RAY, ("ExecStop",)),
    "--port": Run(_RESTORE, _UNIT_OF_RAY),
    "--node-manager-port": Run(_RESTORE, _UNIT_OF_RAY),
    "--object-manager-port": Run(_RESTORE, _UNIT_OF_RAY),
    "--min-worker-port": Run(_RESTORE, _UNIT_OF_RAY),
    "--max-worker-port": Run(_RESTORE, _UNIT_OF_RAY),
    # Is all well?
    "rollcall status": Run(_BALANCE, (_BY_RAY,)),
    "rollcall status --address": Run(_ONE_MACHINE),
    "rollcall status --live": Run(_PROBES),
    "rollcall status --ready": Run(_RESTORE),
    "--json": Run(_HOSTS, (f"{_CLUSTER}.status",)),
    # A host is lost, or has maintenance
    "rollcall replace": Run(_HOSTS, (_BY_RAY,)),
    "--to": Run(_HOSTS, (_BY_RAY,)),
    "rollcall drain": Run(_DRAIN),
    "rollcall drain --address": Run(_UPGRADE, _UPGRADING),
    "--end": Run(_DRAIN),
    # A new version
    "ray stop": Run(_UPGRADE, (*_UPGRADING, f"{_RAY}.stop")),
    "ray stop --grace-period": Run(_UPGRADE, (*_UPGRADING, f"{_RAY}.stop")),
    "pip install": Run(_WHEEL, (_INSTALLED,)),
    "--constraint": Run(_WHEEL, (_INSTALLED,), ("--constraints",)),
    "rollcall upgrade": Run(_UPGRADE, _UPGRADING),
    "rollcall upgrade --address": Run(_UPGRADE, _UPGRADING),
    "rollcall upgrade --address --dry-run": Run(_UPGRADE, _UPGRADING),
    "kafka-features.sh describe --bootstrap-server": Run(_FEATURES, _FEATURES_TOOL),
    "kafka-features.sh upgrade --feature": Run(_FEATURES, _FEATURES_TOOL),
    "kafka-features.sh downgrade --feature": Run(_FEATURES, _FEATURES_TOOL),
    # More machines, fewer machines
    "rollcall balance": Run(_BALANCE, (_BY_RAY,)),
    "rollcall balance --dry-run": Run(_BALANCE, (_BY_RAY,)),
    "--throttle": Run(_BALANCE, ("tests/hosts/test_balance.py::begin_balance",)),
    "rollcall balance --without": Run(_BALANCE, _TAKEN_AWAY),
    "rollcall balance --without --dry-run": Run(_BALANCE, _TAKEN_AWAY),
    "--without": Run(_BALANCE, _TAKEN_AWAY),
    "--share-hosts": Run(_BALANCE, ("tests/hosts/test_balance.py::keep_another", _BY_RAY)),
    # Drills
    "rollcall drill --hosts": Run(_DRILL),
    "--types": Run(_DRILL),
    "--spark-hosts": Run(_WRONG_DRILLS),
    "--from": Run(_WRONG_DRILLS),
    "python -m --directory": Run(
        "tests/bench/test_all_drills.py::"
        "test_every_drill_is_run_on_every_number_of_hosts_that_it_can_have",
        words=("--directory",),
    ),
    "python -m --partitions": Run(
        "tests/bench/test_footprint.py::test_it_prints_the_table_and_writes_the_figures",
        words=("--partitions",),
    ),
    # Last resorts
    "rollcall backup": Run(_RESTORE, (_BY_RAY,)),
    "rollcall backup --verify": Run(_KAFKA),
    "kafka-dump-log.sh --offsets-decoder": Run(_DUMP),
    "rollcall restore": Run(_RESTORE),
    "rollcall restore --data-dir": Run(_KAFKA),
    "rollcall restore --address --data-dir": Run(_RESTORE),
    "--replication-factor": Run(_OTHER_FACTOR),
    "rollcall recover --unsafe --to": Run(_RECOVER),
    "rollcall import --bootstrap-server --to --partitions": Run(_KAFKA),
    "rollcall import --segments --to --partitions": Run(_KAFKA),
    "--partitions": Run(_KAFKA),
    "rollcall export --bootstrap-server --group": Run(_KAFKA),
    "rollcall export --bootstrap-server --offsets-only": Run(_KAFKA),
    "--group": Run(_KAFKA),
    # Commands at a real Kafka
    "--bootstrap-server": Run(
        "tests/actors/cli/test_command_config.py::test_a_wrong_file_is_bad_input"
    ),
    "--command-config": Run(
        "tests/exchange/test_watch_kafka.py::test_commands_log_in_at_a_kafka",
        ("tests/exchange/logging_in.py::logins_are_taken",),
    ),
}

CLOSED: Final = (
    "--ray-client-server-port",
    "--dashboard-agent-listen-port",
    "--metrics-export-port",
    "--runtime-env-agent-port",
)
"""Options of ``ray start`` for ports that stay closed: the page gives no value for them."""
