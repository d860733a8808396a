"""The systemd units: systemd understands them, and they call commands as these are."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from ray.scripts.scripts import start as ray_start

from actors.cli.main import _parser
from actors.errors import ExitCode
from protocol.config import read_server_configs
from protocol.properties import parse_properties
from tests.deploy.prune import ROOT

SYSTEMD = ROOT / "deploy" / "systemd"
UNITS = sorted(SYSTEMD.glob("*.service"))
PROGRAMS = "/opt/rollcall/bin/"
VARIABLE = re.compile(r"\$\{(\w+)\}")


def settings(unit: Path) -> dict[str, list[str]]:
    """Return the settings of a unit, each with all its values."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def commands(unit: Path) -> list[list[str]]:
    """Return the command lines of a unit, without the dash before one that may fail."""
    rows = settings(unit)
    return [
        shlex.split(line.removeprefix("-"))
        for name in ("ExecStart", "ExecStop")
        for line in rows.get(name, ())
    ]


def environment() -> dict[str, str]:
    """Return the variables of the units."""
    lines = (SYSTEMD / "environment").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("ray", "rollcall"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    copies = []
    for unit in UNITS:
        copies.append(tmp_path / unit.name)
        copies[-1].write_text(unit.read_text().replace(PROGRAMS, f"{programs}/"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *copies],
        capture_output=True,
        text=True,
        check=False,
    )
    about_us = [line for line in done.stderr.splitlines() if "rollcall" in line]
    assert (done.returncode, about_us) == (0, []), done.stderr


def test_there_is_a_unit_for_the_head_the_workers_and_the_cluster() -> None:
    assert [unit.name for unit in UNITS] == [
        "rollcall-ray-head.service",
        "rollcall-ray-worker.service",
        "rollcall.service",
    ]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_commands_are_those_of_rollcall_and_their_variables_are_set(unit: Path) -> None:
    variables = environment()
    for words in commands(unit):
        assert set(VARIABLE.findall(" ".join(words))) <= set(variables)
        program, *arguments = words
        assert program.startswith(PROGRAMS)
        if program == f"{PROGRAMS}rollcall":
            _parser().parse_args(arguments)  # exits if one is unknown
        else:
            options = {word.split("=")[0] for word in arguments[1:]}
            known = {option for parameter in ray_start.params for option in parameter.opts}
            assert (arguments[0], options - known) == ("start", set())


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_runs_as_an_ordinary_user_with_the_environment(unit: Path) -> None:
    rows = settings(unit)
    assert rows["User"] == ["rollcall"]
    assert rows["EnvironmentFile"] == ["/etc/rollcall/environment"]
    assert rows["StateDirectoryMode"] == ["0700"], "it has the cluster's secret"
    assert rows["WantedBy"] == ["multi-user.target"], "it starts with the machine"


def test_ray_asks_for_a_token_and_its_store_outlives_the_head() -> None:
    found = environment()
    assert found["RAY_AUTH_MODE"] == "token"
    assert found["RAY_gcs_storage"] == "rocksdb"
    assert found["RAY_gcs_storage_path"].startswith("/var/lib/rollcall/")
    assert found["RAY_gcs_rpc_server_reconnect_timeout_s"] == "86400"


def test_the_cluster_is_started_until_it_runs_and_never_stopped_with_a_host() -> None:
    rows = settings(SYSTEMD / "rollcall.service")
    assert rows["SuccessExitStatus"] == [str(int(ExitCode.ALREADY_RUNNING))]
    assert rows["RestartPreventExitStatus"] == [str(int(ExitCode.BAD_INPUT))]
    assert rows["Restart"] == ["on-failure"]
    assert "ExecStop" not in rows


def test_the_example_of_a_configuration_is_valid() -> None:
    text = (ROOT / "deploy" / "server.properties").read_text()
    found = read_server_configs(parse_properties(text))
    assert found.unused == ()
    commented = re.sub(r"^# (?=[a-z.]+=)", "", text, flags=re.MULTILINE)
    assert read_server_configs(parse_properties(commented)).unused == ()
