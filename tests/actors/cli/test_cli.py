"""Bad input gets one clear sentence and exit code 2; nothing is started."""

import fcntl
import socket
from importlib.metadata import version
from pathlib import Path

import pytest

from actors.cli.main import main
from actors.cluster import registry
from actors.cluster.data_dir import ClusterFile, save
from actors.errors import ExitCode


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """Run a command that must be refused; return its one sentence."""
    try:
        code = main([str(word) for word in words])
    except SystemExit as end:
        code = end.code  # type: ignore[assignment]
    said = capsys.readouterr()
    assert code == 2, said.err
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith("rollcall: ")
    assert "Traceback" not in said.err
    return said.err


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (
            "group.max.sise=3",
            "Unknown broker config name: group.max.sise (did you mean group.max.size",
        ),
        ("group.max.size", "--set needs KEY=VALUE"),
        ("=3", "--set needs KEY=VALUE"),
        ("group.max.size=many", "Not a number"),
        ("group.max.size=0", "Value must be at least 1"),
        ("offsets.topic.num.partitions=0", "Value must be at least 1"),
        ("log.flush=never", "String must be one of"),
        ("auto.create.topics.enable=maybe", "true or false"),
        ("socket.request.max.bytes=-5", "at least"),
        ("group.min.session.timeout.ms=9999999", "must not be greater than"),
        ("security.inter.broker.protocol=SASL_SSL", "String must be one of: PLAINTEXT, SSL"),
        ("security.inter.broker.protocol=SSL", "needs certificates: set ssl.keystore.type=PEM"),
    ],
)
def test_a_wrong_setting_is_refused(
    setting: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "up", "--set", setting, "--data-dir", tmp_path / "data")
    assert sentence in said
    assert not (tmp_path / "data").exists()


def test_a_missing_config_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "up", "--config", tmp_path / "none.properties")
    assert "No such file or directory" in said


def test_a_wrong_line_of_a_config_file_is_refused_with_the_files_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("group.max.size=10\ngroup.initial.rebalance.delay.ms=soon\n")
    assert "Invalid value soon" in refused(capsys, "up", "--config", file)


def test_certificates_that_cannot_be_used_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "security.inter.broker.protocol=SSL\nssl.keystore.type=PEM\nssl.truststore.type=PEM\n"
        f"ssl.keystore.location={tmp_path}/none.pem\nssl.truststore.location={tmp_path}/none.pem\n"
    )
    said = refused(capsys, "up", "--config", file, "--port=0", "--data-dir", tmp_path / "data")
    assert said == f"rollcall: {tmp_path}/none.pem cannot be read: No such file or directory.\n"
    assert not (tmp_path / "data" / "cluster.json").exists()


@pytest.mark.parametrize("port", ["-1", "65536", "9o92", ""])
def test_a_wrong_port_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a port" in refused(capsys, "up", f"--port={port}")


@pytest.mark.parametrize("rate", ["-1", "0", "5MB", ""])
def test_a_wrong_throttle_is_refused(rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a rate: give bytes per second" in refused(
        capsys, "balance", f"--throttle={rate}"
    )


def test_hosts_are_shared_only_when_one_is_taken_away(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "balance", "--share-hosts")
    assert said == "rollcall: --share-hosts needs --without HOST.\n"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_a_host_that_no_client_can_connect_to_is_refused(
    host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "up", f"--host={host}", "--data-dir", tmp_path / "data")
    assert "is not an address that clients can use" in said


def test_a_port_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = refused(capsys, "up", "--port", port, "--data-dir", tmp_path)
    assert f"Cannot listen on 127.0.0.1:{port}: Address already in use." in said


def test_a_directory_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = refused(capsys, "up", "--port", "0", "--data-dir", tmp_path)
    assert "in use by a running cluster" in said


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("offsets.topic.num.partitions=5", "cannot be changed to 5"),
        ("offsets.topic.replication.factor=1", "cannot be changed to 1"),
    ],
)
def test_partitions_and_replicas_are_fixed_at_the_first_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, said: str
) -> None:
    cluster = ClusterFile(
        cluster_id="AAAAAAAAAAAAAAAAAAAAAA",
        partitions=3,
        ports=(0, 0, 0, 0),
        replicas=3,
        secret="secret",
    )
    save(tmp_path, cluster)
    words = ("up", "--port", "0", "--data-dir", tmp_path, "--set")
    assert said in refused(capsys, *words, setting)


@pytest.mark.parametrize("text", ["0", "-1", "1001", "three", ""])
def test_a_wrong_number_of_hosts_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a number from 1 to 1000" in refused(capsys, "up", f"--hosts={text}")


def test_hosts_are_waited_for_on_a_ray_of_several_hosts_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "up", "--hosts", "3", "--data-dir", tmp_path)
    assert "--hosts needs --address" in said


@pytest.mark.parametrize("words", [("rise",), (), ("up", "--fast"), ("status", "--xml")])
def test_an_unknown_word_is_refused(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    refused(capsys, *words)


def test_a_directory_without_a_running_cluster_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--data-dir", str(tmp_path)]) == ExitCode.NO_CLUSTER
    assert capsys.readouterr().err == f"rollcall: No cluster is running on {tmp_path}.\n"


def test_of_several_clusters_one_must_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_directory", lambda: tmp_path)
    for name in ("a", "b"):
        registry.save(
            registry.RegisteredCluster(
                cluster_id=name,
                data_dir=f"/{name}",
                address="auto",
                bootstrap="127.0.0.1:1",
                partitions=1,
                workers=0,
                node=None,
                owner=None,
            )
        )
    said = refused(capsys, "status")
    assert "choose one with --data-dir (/a, /b)" in said


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"rollcall {version('rollcall')}\n"
