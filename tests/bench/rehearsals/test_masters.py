"""Where Spark's tasks run: which words say it, and what is refused before anything starts."""

import os

import pytest

from actors.errors import BadInputError
from bench.rehearsals.masters import SUBMITTED, SparkMaster
from bench.rehearse import _parser, _spark, main
from bench.servers.processes import free_port

SMALL = """
about = "three members"
duration = "20s"
topics.t.partitions = 3
[[groups]]
name = "a"
topics = ["t"]
"""


def test_a_master_says_how_many_tasks_it_runs_at_a_time():
    cores = {
        "local[3]": 3,
        "local[*]": os.cpu_count(),
        "local-cluster[2,3,512]": 6,
        "local-cluster[2, 1, 1024]": 2,
        "spark://10.0.0.9:7077": None,
        "spark://[::1]:7077": None,
    }
    assert {text: SparkMaster.parse(text).cores for text in cores} == cores
    local = SparkMaster.parse("local[3]").session_settings()
    assert local["spark.master"] == "local[3,2]", "a lost task does not end the others"
    cluster = SparkMaster.parse("local-cluster[2,1,768]").session_settings()
    assert cluster["spark.executor.memory"] == "768m"
    assert SparkMaster.parse("spark://[::1]:7077").address == ("::1", 7077)


@pytest.mark.parametrize(
    "text",
    ["", "local", "local[0]", "local[x]", "local-cluster[2,1]", "spark://host", "spark://h:99999",
     "yarn", "k8s://https://h:1", "spark://a:1,b:2"],
)  # fmt: skip
def test_what_is_no_master_is_told_with_what_is_one(text, capsys):
    with pytest.raises(ValueError, match="is no master of Spark: use local"):
        SparkMaster.parse(text)
    with pytest.raises(SystemExit) as ended:
        main(["steady", "--spark", "2", "--master", text])
    assert ended.value.code == 2
    assert "argument --master: " in capsys.readouterr().err


def test_a_standalone_master_is_reached_from_the_address_that_its_workers_reach():
    settings = SparkMaster.parse("spark://127.0.0.1:7077").session_settings()
    assert settings["spark.driver.host"] == "127.0.0.1"


def test_more_tasks_than_cores_are_refused():
    SparkMaster.parse("local-cluster[2,1,512]").check(2)
    with pytest.raises(BadInputError, match="--spark 3 needs 3 cores, and --master has 2"):
        SparkMaster.parse("local-cluster[2,1,512]").check(3)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--master", "local[2]"], "--master says where tasks of Spark run: say how many"),
        (["--simulate", "--spark", "2"], "--spark drives members in real time"),
        (["--spark", "3", "--master", "local[2]"], "--spark 3 needs 3 cores"),
        (["--spark", "2", "--master", "spark://[::1]:{port}"], "spark://[::1]:{port} cannot be"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_before_anything_starts(words, sentence, tmp_path, capsys):
    file, port = tmp_path / "small.toml", free_port()
    file.write_text(SMALL)
    assert main([str(file), *(word.format(port=port) for word in words)]) == 2
    told = capsys.readouterr()
    assert told.err.startswith(f"rollcall: {sentence.format(port=port)}")
    assert told.err.count("\n") == 1
    assert told.out == ""


def test_a_submitted_program_runs_where_it_was_submitted_to(tmp_path, monkeypatch, capsys):
    asked = _parser().parse_args(["steady", "--spark", "2"])
    assert _spark(asked).master.url == "local[2,2]"
    monkeypatch.setenv(SUBMITTED, "1234")
    assert _spark(asked).master is None
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    assert main([str(file)]) == 2
    assert "--spark N" in capsys.readouterr().err
