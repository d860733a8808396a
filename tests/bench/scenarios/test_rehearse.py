"""``rollcall rehearse``: what it prints and returns."""

import json
import resource
from dataclasses import replace
from types import SimpleNamespace

import pytest

from bench import rehearse
from bench.pages.markdown import markdown
from bench.pages.runs import ReportedRun, report
from bench.rehearsals import runs
from bench.rehearsals.comparison import Comparison
from bench.rehearse import main
from bench.scenarios import history, simulated
from bench.scenarios.files import names, parse
from bench.scenarios.plan import expand
from bench.scenarios.verdicts.conditions import FailOn
from bench.scenarios.verdicts.verdict import HistoryResult, judge
from bench.servers.processes import free_port
from bench.servers.server import StartError
from failover.drills.checked import DrillError

SMALL = """
about = "three members"
duration = "20s"
topics.t.partitions = 3
[[groups]]
name = "a"
topics = ["t"]
behaviours = [{ do = "scale", at = "5s", replicas = 2 }]
"""


VARIANTS = """
[[variants]]
name = "pods"
groups.a = { static = true, workload = "StatefulSet", behaviours = [] }
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_the_list_names_every_scenario(capsys):
    assert main(["--simulate", "--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == list(names())


def test_without_a_scenario_the_list_is_printed_and_a_sentence_says_what_is_missing(capsys):
    assert main([]) == 2
    told = capsys.readouterr()
    assert told.err == ("rollcall: Name a scenario, one of these or a file that ends with .toml.\n")
    assert [line.split()[0] for line in told.out.splitlines()] == list(names())


@pytest.mark.parametrize(
    ("words", "beside"),
    [
        (["steady"], "SCENARIO"),
        (["--kafka", "--spark", "2"], "--kafka, --spark"),
        (["--list"], "--list"),
        (["--json", "v.json", "--fail-on", "rebalances>0"], "--fail-on, --json"),
    ],
)
def test_options_that_a_group_does_not_need_are_refused(
    tmp_path, monkeypatch, capsys, words, beside
):
    monkeypatch.chdir(tmp_path)
    assert main(["--from-group", "orders", "--bootstrap", "127.0.0.1:1", *words]) == 2
    told = capsys.readouterr()
    sentence = f"rollcall: --from-group only prints a scenario: omit {beside}.\n"
    assert (told.out, told.err) == ("", sentence)


def test_a_group_cannot_be_simulated(capsys):
    assert main(["--from-group", "orders", "--simulate"]) == 2
    assert "omit --simulate." in capsys.readouterr().err


def test_a_clean_verdict_is_a_table_and_a_document(file, tmp_path, capsys):
    out = tmp_path / "verdict.json"
    assert main(["--simulate", str(file), "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "three members; 3 members, 20 s" in printed
    assert "5.0 s  a: scale" in printed
    assert printed.endswith("clean\n")
    document = json.loads(out.read_text())
    assert (document["scenario"], document["run"], document["clean"]) == (
        "small", "simulated", True,
    )  # fmt: skip
    assert document["groups"]["a"]["rebalances"] == 1
    assert list(tmp_path.glob("*.partial")) == []


def test_what_costs_more_than_expected_fails(file, capsys):
    file.write_text(SMALL + "expect = { rebalances_max = 0 }\n")
    assert main(["--simulate", str(file)]) == 1
    assert "a: 1 rebalance, and at most 0 were expected.\nNOT CLEAN" in capsys.readouterr().out


def test_a_report_is_a_page_and_its_document(file, tmp_path):
    page, data = tmp_path / "r.html", tmp_path / "r.json"
    assert main(["--simulate", str(file), "--report", str(page), "--report", str(data)]) == 0
    assert page.read_text().startswith("<!doctype html>")
    (run,) = json.loads(data.read_text())["runs"]
    assert (run["name"], run["duration_ms"], run["changed_ms"]) == ("small", 20_000, 5_000)
    assert run["marks"] == [{"at_ms": 5_000, "text": "scale", "group": "a"}]
    assert run["stories"][0]["rebalances"][-1]["cause"].endswith(" left")


def test_a_report_that_cannot_be_written_is_refused_before_the_run(file, tmp_path, capsys):
    for name in ("r.txt", "missing/r.html"):
        with pytest.raises(SystemExit) as ended:
            main(["--simulate", str(file), "--report", str(tmp_path / name)])
        assert ended.value.code == 2
        assert "argument --report: " in capsys.readouterr().err


def test_bad_input_is_one_sentence(file, capsys):
    file.write_text(SMALL.replace("20s", "20"))
    for words in (["nothing"], [str(file)], ["missing.toml"]):
        assert main(["--simulate", *words]) == 2
        said = capsys.readouterr().err
        assert said.startswith("rollcall: ")
        assert said.count("\n") == 1


def test_a_document_that_cannot_be_written_is_told(file, capsys):
    for path, why in (
        ("/proc/verdict.json", "No such file or directory"),
        ("/dev/full", "No space left on device"),
    ):
        assert main(["--simulate", str(file), "--json", path]) == 2
        told = capsys.readouterr()
        sentence = f"{path} cannot be written: {why}."
        assert told.err == f"rollcall: The rehearsal could not be completed: {sentence}\n"
        assert "\nclean\n" in told.out, "the verdict is not lost"


def outputs(tmp_path):
    """Return the options for a file of each kind, and the files."""
    files = [tmp_path / f"told.{suffix}" for suffix in ("json", "md", "html")]
    kinds = ("--json", "--markdown", "--report")
    return [word for kind, path in zip(kinds, files, strict=True) for word in (kind, str(path))], (
        files
    )


def test_a_file_that_cannot_be_written_keeps_no_other_from_it(file, tmp_path, capsys):
    words, files = outputs(tmp_path)
    words[1] = "/dev/full"
    words += ["--report", "/proc/page.html", "--report", str(tmp_path / "last.html")]
    assert main(["--simulate", str(file), *words]) == 2
    assert "/dev/full cannot be written" in capsys.readouterr().err
    assert all(path.exists() for path in (*files[1:], tmp_path / "last.html"))


def test_a_run_that_fails_loses_none_of_those_before_it(file, tmp_path, capsys, monkeypatch):
    """Two variants are simulated, and the second cannot be: what the first cost is kept."""
    file.write_text(SMALL + VARIANTS)
    run, ran = simulated.run, []

    def once(scenario, plan, say):
        ran.append(scenario)
        if len(ran) > 1:
            raise DrillError("Kafka did not answer within 60 s.")
        return run(scenario, plan, say)

    monkeypatch.setattr(simulated, "run", once)
    words, (document, table, page) = outputs(tmp_path)
    assert main(["--simulate", str(file), *words]) == 2
    told = capsys.readouterr()
    sentence = "Kafka did not answer within 60 s."
    assert told.err == f"rollcall: The rehearsal could not be completed: {sentence}\n"
    assert f"Not completed: {sentence}\nNOT CLEAN\n" in told.out
    kept = json.loads(document.read_text())
    assert (kept["variant"], kept["clean"]) == ("base", False)
    assert kept["lacks"] == [f"Not completed: {sentence}"]
    assert f"Not completed: {sentence}" in table.read_text()
    assert f"Not completed: {sentence}" in page.read_text()


def test_histories_that_cannot_be_checked_lose_no_file(file, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bench.rehearse.need_spark", lambda: None)
    error = StartError("Spark cannot check the history: it is gone.")
    monkeypatch.setattr("bench.rehearse.with_histories", lambda runs, *_: (runs, error))
    words, (document, table, page) = outputs(tmp_path)
    words += ["--history", str(tmp_path / "runs")]
    assert main(["--simulate", str(file), *words]) == 2
    assert capsys.readouterr().err == (f"rollcall: The rehearsal could not be completed: {error}\n")
    assert json.loads(document.read_text())["lacks"] == [f"Not completed: {error}"]
    assert "No rule was broken" not in page.read_text()
    assert str(error) in table.read_text()


@pytest.mark.parametrize("option", ["--json", "--markdown", "--report"])
def test_a_disk_that_is_full_in_the_end_leaves_no_half_of_a_file(file, tmp_path, capsys, option):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    out = tmp_path / "verdict.html"
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        code = main(["--simulate", str(file), option, str(out)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == 2
    told = capsys.readouterr()
    sentence = f"{out} cannot be written: File too large."
    assert told.err == f"rollcall: The rehearsal could not be completed: {sentence}\n"
    assert "\nclean\n" in told.out
    assert list(tmp_path.glob("verdict*")) == []


def test_without_java_nothing_is_run(file, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for option in ("--kafka", "--history"):
        words = [option] if option == "--kafka" else [option, str(tmp_path / "histories")]
        assert main(["--simulate", str(file), *words]) == 2
        told = capsys.readouterr()
        assert told.err == "rollcall: Java 17 is needed here and no java was found.\n"
        assert told.out == ""


def test_a_group_of_a_cluster_that_does_not_answer_is_bad_input(capsys):
    at = f"127.0.0.1:{free_port()}"
    assert main(["--from-group", "orders", "--bootstrap", at]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"rollcall: {at} cannot be reached")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--variant", "none"], "There is no variant 'none': use base."),
        (
            ["--command-config", "client.properties"],
            "--command-config is for a cluster that runs: add --bootstrap.",
        ),
        (["--fail-on", "b:rebalances>1"], "--fail-on b:rebalances>1: there is no such group."),
        (
            ["--history", "/proc/version"],
            "/proc/version is no directory: name another one for --history.",
        ),
    ],
)
def test_an_option_that_does_not_fit_is_told_before_the_run(file, capsys, words, sentence):
    assert main(["--simulate", str(file), *words]) == 2
    told = capsys.readouterr()
    assert told.err.endswith(f"{sentence}\n")
    assert told.out == ""


def test_a_cluster_that_does_not_answer_is_bad_input(file, capsys):
    at = f"127.0.0.1:{free_port()}"
    for words, sentence in ((at, f"{at} cannot be reached"), ("x", "'x' is not a bootstrap")):
        assert main([str(file), "--bootstrap", words]) == 2
        assert f"rollcall: {sentence}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "condition",
    ["rebalances", "rebalances>", "rebalance>1", "rebalances>x", "a:late_requests_percent>1"],
)
def test_a_condition_that_makes_no_sense_is_told(file, capsys, condition):
    with pytest.raises(SystemExit) as ended:
        main(["--simulate", str(file), "--fail-on", condition])
    assert ended.value.code == 2
    assert "--fail-on" in capsys.readouterr().err


def test_a_condition_to_fail_on_decides_the_exit_code(file, tmp_path, capsys):
    out = tmp_path / "v.json"
    words = ["--simulate", str(file), "--json", str(out)]
    assert main([*words, "--fail-on", "rebalances>1", "--fail-on", "a: failed_members >= 1"]) == 0
    assert main([*words, "--fail-on", "rebalances>=1"]) == 1
    sentence = "simulated, base, a: 1 rebalance: fails on rebalances>=1."
    assert f"{sentence}\nNOT CLEAN" in capsys.readouterr().out
    document = json.loads(out.read_text())
    assert (document["clean"], document["fail_on"]) == (False, [sentence])


def test_a_condition_on_an_application_is_one_on_the_worst_of_its_copies(file, capsys):
    """Of three groups a copy each is scaled; then one copy is meant by its number."""
    other = SMALL[SMALL.index("[[groups]]") :].replace('"a"', '"b"')
    file.write_text(SMALL.replace('name = "a"', 'name = "a"\ncopies = 3') + other)
    words = ["--simulate", str(file)]
    assert main([*words, "--fail-on", "a:members<2", "--fail-on", "a-1:members<2"]) == 0
    capsys.readouterr()
    assert main([*words, "--fail-on", "a:members<3", "--fail-on", "a-2:members<=2"]) == 1
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if " fails on " in line] == [
        "simulated, base, a-0: 2 members in the end: fails on a:members<3.",
        "simulated, base, a-2: 2 members in the end: fails on a-2:members<=2.",
    ]
    assert main([*words, "--fail-on", "a-3:members<3"]) == 2
    assert "there is no such group" in capsys.readouterr().err


def test_the_worst_copy_is_the_one_that_is_told():
    scenario = parse("small", SMALL.replace('name = "a"', 'name = "a"\ncopies = 3'))
    record = simulated.run(scenario, expand(scenario), lambda _at_ms, _text: None)
    verdict = judge(scenario, record, "real")
    groups = tuple(
        replace(each, costs=replace(each.costs, members=members))
        for each, members in zip(verdict.groups, (2, 4, 1), strict=True)
    )
    for text, copy in (("a:members>1", "a-1: 4"), ("a:members<=4", "a-2: 1")):
        told = Comparison([replace(verdict, groups=groups)], [FailOn.parse(text)])
        (sentence,) = told.failures()
        assert sentence.startswith(f"real, base, {copy} ")


def test_lateness_decides_if_it_is_asked_to():
    scenario = parse("small", SMALL)
    record = replace(
        simulated.run(scenario, expand(scenario), lambda _at_ms, _text: None),
        requests=400, late_requests=6, held_requests=8, late=1, stalled_ms=700,
    )  # fmt: skip
    verdict = judge(scenario, record, "real")
    assert verdict.is_clean, "lateness is this machine's, unless somebody limits it"
    for text, sentence in (
        ("late_requests_percent>1", "1.5 % of the requests were late"),
        ("held_requests_percent>1", "2 % of the requests waited for another answer"),
        ("late_steps>0", "1 steps of the plan were late"),
        ("stalled_seconds>=0.7", "0.7 seconds for which the members' process stood still"),
    ):
        told = Comparison([verdict], [FailOn.parse(text)])
        assert not told.is_clean
        assert told.failures() == [f"real, base: {sentence}: fails on {text}."]
        assert told.document()["late_requests_percent"] == 1.5
        assert f"- real, base: {sentence}" in told.markdown()
        assert "6 of 400 requests (1.50%) were late" in told.markdown()
        assert "8 more (2.00%) were due while another request of their member" in told.markdown()
    assert Comparison([verdict], [FailOn.parse("late_requests_percent>1.5")]).is_clean
    calm = judge(scenario, replace(record, late_requests=0, held_requests=0, late=0), "real")
    assert "0 of 400 requests (0.00%) were late." in Comparison([calm]).markdown()


@pytest.mark.parametrize(
    ("late_requests", "late_steps", "said"),
    [
        (3, 0, "(0.75%) were late."),
        (4, 0, "(1.00%) were late: this machine is too slow for it."),
        (0, 1, "(0.00%) were late: this machine is too slow for it."),
    ],
)
def test_a_machine_is_too_slow_from_one_late_request_in_a_hundred_on(
    late_requests, late_steps, said
):
    scenario = parse("small", SMALL)
    record = replace(
        simulated.run(scenario, expand(scenario), lambda _at_ms, _text: None),
        requests=400, late_requests=late_requests, late=late_steps,
    )  # fmt: skip
    assert said in Comparison([judge(scenario, record, "real")]).markdown()


def test_a_pull_request_is_told_the_faults_with_their_times(file, tmp_path):
    file.write_text(SMALL + '[[faults]]\ndo = "kill"\nat = "6s"\nnode = 1\n')
    table, page, data = (tmp_path / name for name in ("v.md", "r.md", "v.json"))
    words = ["--markdown", str(table), "--report", str(page), "--json", str(data)]
    assert main(["--simulate", str(file), *words]) == 0
    for written in (table, page):
        assert "- Faults: kill node 1 at 6 s." in written.read_text().splitlines()
    assert json.loads(data.read_text())["faults"] == [{"at_ms": 6_000, "text": "kill node 1"}]


def test_what_a_terminal_is_told_of_a_run_is_in_each_report_of_it():
    scenario = parse("small", SMALL)
    record = replace(
        simulated.run(scenario, expand(scenario), lambda _at_ms, _text: None),
        requests=400, late_requests=6, stalled_ms=700,
    )  # fmt: skip
    verdict = judge(scenario, record, "10.0.0.1:9092", notes=("kill is left out: it is spared.",))
    told = Comparison([verdict])
    made = report("s", "x", [ReportedRun(name="r", record=record, verdict=verdict)])
    assert len(verdict.remarks(3)) == 4
    for sentence in verdict.remarks(3):
        assert sentence in told.text()
        assert f"- {sentence}" in told.markdown()
        said = sentence if sentence == verdict.forming else f"- {sentence}"
        assert said in markdown(made)


@pytest.mark.parametrize(
    ("broken", "suspect", "remarks"),
    [
        ({}, {}, ["2 checks of its history (1,234 rows) found no broken promise."]),
        (
            {},
            {"not-converged": ["a: m is in 3."]},
            [
                "2 checks of its history (1,234 rows) found no broken promise. Suspect is"
                " not-converged (7): a: m is in 3."
            ],
        ),
        (
            {"two-owners": ["a: t-0 has two"] * 5},
            {},
            [
                "2 checks of its history (1,234 rows) found broken promises: two-owners (40).",
                "two-owners, in the history: 40",
                *["  a: t-0 has two"] * 3,
            ],
        ),
    ],
)
def test_a_verdict_says_what_the_checks_of_its_history_found(broken, suspect, remarks):
    scenario = parse("small", SMALL)
    record = simulated.run(scenario, expand(scenario), lambda _at_ms, _text: None)
    counts = {"two-owners": 40 if broken else 0, "not-converged": 7 if suspect else 0}
    found = HistoryResult(rows=1_234, counts=counts, broken=broken, suspect=suspect)
    verdict = replace(judge(scenario, record, "real"), history=found)
    told = Comparison([verdict])
    assert told.is_clean is not bool(broken)
    forming, *found_remarks = verdict.remarks(3)
    assert forming.startswith("3 partitions had no owner yet when the first change came, of a:")
    assert found_remarks == remarks
    assert all(line.strip() in told.markdown() for line in remarks)
    assert told.document()["history"] == {"rows": 1_234, "checks": counts, "suspect": suspect}
    names = [f"{name}, in the history" for name in broken]
    assert list(told.document()["violations"]) == names
    made = report("s", "x", [ReportedRun(name="r", record=record, verdict=verdict)])
    assert made.is_clean is not bool(broken)
    assert list(made.runs[0].found) == names
    assert remarks[0] in made.runs[0].notes
    if broken:
        assert made.verdict == f"two-owners, in the history: 40. {forming}"


def test_variants_are_compared(file, tmp_path, capsys):
    file.write_text(SMALL + VARIANTS)
    out, page = tmp_path / "v.json", tmp_path / "v.md"
    assert main(["--simulate", str(file), "--json", str(out), "--markdown", str(page)]) == 0
    best = (
        "simulated: pods costs least, by unavailable member-seconds: 0 unavailable member-seconds,"
        " 0 rebalances, 0 partitions moved. Then base: "
    )
    assert best in capsys.readouterr().out
    document = json.loads(out.read_text())
    assert [each["variant"] for each in document["runs"]] == ["base", "pods"]
    assert [each["groups"]["a"]["rebalances"] for each in document["runs"]] == [1, 0]
    assert document["best"][0].startswith(best)
    lines = page.read_text().splitlines()
    assert lines[0] == "### Rehearsal of small: clean"
    assert lines[2].startswith("| run | variant | group | members | protocol | generation |")
    assert lines[5].startswith("| simulated | pods | a | 3 | classic, static | ")
    assert lines[-1].startswith(f"- {best}")
    assert main(["--simulate", str(file), "--variant", "pods"]) == 0
    assert "classic, dynamic" not in capsys.readouterr().out


def test_the_page_has_the_variants_side_by_side_and_what_fails(file, tmp_path, capsys):
    file.write_text(SMALL + VARIANTS)
    out = tmp_path / "r.json"
    words = ["--simulate", str(file), "--report", str(out), "--fail-on", "rebalances>=1"]
    assert main(words) == 1
    document = json.loads(out.read_text())
    names = [run["name"] for run in document["runs"]]
    assert names[0] == "base"
    assert len(names) > 1
    assert not document["is_clean"]
    assert document["verdict"].startswith("simulated, base, a: ")


@pytest.mark.parametrize(
    "where_and_folders",
    [
        (["--simulate"], ["small-base", "small-pods"]),
        (["--simulate", "--variant", "pods"], ["small"]),
        (["--kafka", "--variant", "base"], ["small-real", "small-kafka"]),
        (["--kafka", "--bootstrap", "10.0.0.1:9092", "--variant", "pods"],
         ["small-10.0.0.1-9092", "small-kafka"]),
    ],
)  # fmt: skip
def test_a_history_that_is_there_is_refused_before_the_run_under_the_name_of_the_run(
    file, tmp_path, capsys, monkeypatch, where_and_folders
):
    where, folders = where_and_folders
    monkeypatch.setattr(rehearse, "need_spark", lambda: None)
    monkeypatch.setattr(rehearse, "need_kafka", lambda: None)
    monkeypatch.setattr(runs, "_run", lambda planned, place, *_others: written(_others[-1][1]))
    monkeypatch.setattr(rehearse, "_tell", lambda *_told: SimpleNamespace(is_clean=True))
    file.write_text(SMALL + VARIANTS)
    histories = tmp_path / "histories"
    named = []

    def written(words):
        named.append(history.run_id_of("small", words))

    words = [*where, str(file), "--history", str(histories)]
    assert main(words) == 0
    assert named == folders
    for each in folders:
        folder = histories / f"run_id={each}"
        folder.mkdir(parents=True)
        capsys.readouterr()
        assert main(words) == 2
        told = capsys.readouterr()
        assert told.err == f"rollcall: {folder} exists: remove it, or name another directory.\n"
        assert told.out == ""
        folder.rmdir()
