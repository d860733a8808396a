"""Scenario files: what they may say, and what is said about their mistakes."""

import re
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields

from bench.scenarios import lines
from bench.scenarios.faults import KillCoordinator, RestartCoordinator
from bench.scenarios.files import found, names, parse, parse_variants
from bench.scenarios.lines import line_of
from bench.scenarios.scenario import Group, GroupLimits, Scenario, WorkloadKind
from bench.scenarios.values import DURATION_MS_MAX, Amount, Duration, Protocol
from failover.drills.checked import DrillError
from protocol.members.assignors import ClassicAssignor
from tests.effort import examples

GOOD = """\
about = "x"
duration = "5m"

[topics.orders]
partitions = 6

[[groups]]
name = "a"
topics = ["orders"]
"""
AUTOSCALE = """\
[[groups.behaviours]]
do = "autoscale"
at = "1m"
pod_per_second = 1
arrivals = [{ at = "1m", per_second = 1 }, { at = "2m", per_second = 2 }]"""
DEPLOY = '[[groups.behaviours]]\ndo = "rolling-deploy"\nat = "1m"\n'

BACK = DEPLOY + 'protocol = "classic"'

TO_SOME_PODS = {
    "crash": (),
    "restart": (),
    "flap": ('every = "5s"', 'topics = ["orders"]'),
    "duplicate": (),
    "poll-timeout": (),
    "pause": ('for = "1s"',),
}
"""What can happen to some pods, and what of it must be said."""


def test_the_scenarios_that_come_with_the_program_are_all_well_formed() -> None:
    assert {"bad-application", "rolling-deploy", "which-deploy"} < set(names())
    for name in names():
        assert found(name).name == name


def test_what_is_not_said_has_its_usual_value() -> None:
    (group,) = parse("s", GOOD).groups
    assert (group.protocol, group.workload) == (Protocol.CLASSIC, WorkloadKind.DEPLOYMENT)
    assert (group.replicas, group.static, group.behaviours) == (3, False, ())


def test_an_assignor_may_be_that_of_the_classic_members_of_a_later_revision() -> None:
    lines = ('protocol = "consumer"', 'assignor = "sticky"', DEPLOY + 'protocol = "classic"')
    assert parse("s", group_with(*lines)).groups[0].assignor is ClassicAssignor.STICKY


def test_a_group_commits_as_often_as_it_says_or_else_as_often_as_the_scenario() -> None:
    text = f"commit_interval_ms = 7000\n{GOOD}"
    for made, expected in ((parse("s", text), 7_000),
                           (parse("s", f"{text}commit_interval_ms = 100\n"), 100),
                           (parse("s", f"{text}commit_interval_ms = 0\n"), 0),
                           (parse("s", text.replace("7000", "0")), 0)):  # fmt: skip
        assert made.commit_ms(made.groups[0]) == expected


def group_with(*lines: str) -> str:
    return GOOD + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("about = 1 2", "Scenario s is no TOML: Expected newline or end of document after a"),
        (f'name = "t"\n{GOOD}', "Scenario s: omit `name`: the name of the file is the scenario's."),
        (f"extra = 1\n{GOOD}", "Scenario s, line 1: the file has no setting 'extra'."),
        (GOOD.replace('"5m"', '"soon"'), "line 2: duration is 'soon': expected a duration such as"),
        (GOOD.replace('"5m"', "5"), "line 2: duration is 5: expected a duration such as '90s'"),
        (GOOD.replace('"5m"', '"25h"'), "line 2: duration is '25h': expected at most 24h."),
        (GOOD.replace('"5m"', '"0s"'), "line 2: duration is 0."),
        (GOOD.replace("= 6", "= 0"), "line 5: topics: orders: partitions is 0: expected a whole"),
        (GOOD.replace('name = "a"\n', ""), "line 7: group 1 lacks 'name'."),
        (GOOD.replace('"a"', '"a b"'), "line 8: group 1: name is 'a b': expected text matching"),
        (GOOD.replace('["orders"]', '["order"]'), "line 9: group a reads the topic order, which"),
        (GOOD + GOOD[GOOD.index("[[groups]]") :], "line 11: there are two groups a."),
        (
            group_with("copies = 3") + GOOD[GOOD.index("[[groups]]") :].replace('"a"', '"a-2"'),
            "line 12: there are two groups a-2.",
        ),
        (group_with("replicas = 0"), "line 10: group 1: replicas is 0: expected a whole number"),
        *(
            (group_with(*lines), f"line 7: the groups may have {most} members together: 100000")
            for lines, most in (
                (["replicas = 1000", "copies = 101"], 101_000),
                (["replicas = 80001", DEPLOY], 100_002),
                (
                    [
                        "copies = 2",
                        '[[groups.behaviours]]\ndo = "scale"\nat = "1m"',
                        "replicas = 50001",
                    ],
                    100_002,
                ),
                (
                    ["copies = 1000", AUTOSCALE, "minReplicaCount = 101", "maxReplicaCount = 101"],
                    101_000,
                ),
            )
        ),
        (group_with('protocol = "p"'), "(there are classic, consumer, share, streams)."),
        (group_with('maxSurge = "1/4"'), "maxSurge is '1/4': expected a number of pods, or a"),
        (group_with("maxSurge = -1"), "maxSurge is -1: expected a number of pods, or a"),
        (group_with("maxSurge = 0", 'maxUnavailable = "0%"'), "line 11: group a: maxSurge and max"),
        (
            group_with('workload = "StatefulSet"', "maxSurge = 1"),
            "line 11: group a: a StatefulSet has no maxSurge.",
        ),
        (
            group_with('protocol = "share"', "static = true"),
            "line 11: members of share groups are not static here.",
        ),
        (
            group_with('protocol = "share"', 'revoke_time = "1s"'),
            "line 11: group a: members of share groups revoke nothing.",
        ),
        (
            group_with("slow_pods = 1"),
            "line 10: group a: slow_pods says which pods need the revoke_time, and there is none.",
        ),
        (
            group_with('protocol = "consumer"', 'assignor = "sticky"'),
            "line 11: group a: assignor is for classic members: the coordinator assigns to members"
            " of consumer groups.",
        ),
        (
            group_with('assignor = "uniform"'),
            "assignor is 'uniform': invalid enum value 'uniform' (there are range, roundrobin,"
            " sticky, cooperative-sticky).",
        ),
        (
            group_with('protocol = "consumer"', "session_timeout_ms = 10000"),
            "line 11: group a: session_timeout_ms is for classic members: set"
            " group.consumer.session.timeout.ms in configs.",
        ),
        (
            group_with("session_timeout_ms = 100"),
            "line 10: group a: session_timeout_ms is 100, and the coordinator takes 6000 to",
        ),
        (
            group_with("session_timeout_ms = 6000", "heartbeat_interval_ms = 6000"),
            "line 11: group a: heartbeat_interval_ms is 6000, and must be lower than the session"
            " timeout, 6000.",
        ),
        (
            group_with("heartbeat_interval_ms = 50000"),
            "line 10: group a: heartbeat_interval_ms is 50000, and must be lower than the session"
            " timeout, 45000.",
        ),
        (
            group_with(
                "session_timeout_ms = 2000", '[configs]\n"group.min.session.timeout.ms" = "1000"'
            ),
            "line 10: group a: heartbeat_interval_ms is 3000, and must be lower than the session"
            " timeout, 2000.",
        ),
        *(
            (group_with('protocol = "consumer"', *lines, BACK), f"line {line}: group a: {said}")
            for lines, line, said in (
                (
                    ["session_timeout_ms = 100", "heartbeat_interval_ms = 50"],
                    11,
                    "session_timeout_ms is 100, and the coordinator takes 6000 to",
                ),
                (["heartbeat_interval_ms = 45000"], 11, "heartbeat_interval_ms is 45000, and must"),
            )
        ),
        (
            group_with('workload = "StatefulSet"', 'maxUnavailable = "0%"'),
            "line 11: group a: maxUnavailable is 0: no pod of a StatefulSet could be replaced.",
        ),
        (
            group_with('protocol = "share"', "rebalance_timeout_ms = 60000"),
            "line 11: group a: members of share groups have no rebalance timeout.",
        ),
        (group_with(DEPLOY.replace("1m", "6m")), "line 12: group a, behaviour 1 begins after the"),
        (
            group_with('[[groups.behaviours]]\ndo = "explode"\nat = "1m"'),
            "line 11: group 1: behaviour 1: do is 'explode': invalid value 'explode' (there are"
            " rolling-deploy, scale, autoscale, drain, crash, restart, churn, flap, duplicate,"
            " poll-timeout, pause).",
        ),
        (group_with(DEPLOY + "pods = 1"), "line 13: group 1: behaviour 1 has no setting 'pods'."),
        (
            group_with('behaviours = [{do = "flap", at = "1m", every = "5s", topics = ["t"]}]'),
            "line 10: group a, behaviour 1 reads the topic t, which is not among the topics.",
        ),
        (
            group_with('behaviours = [{do = "churn", at = "1m", every = "10ms"}]'),
            "line 10: group a, behaviour 1: every is less than 1 s.",
        ),
        (
            group_with('behaviours = [{do = "duplicate", at = "1m"}]'),
            "group a, behaviour 1: only a static member can have a duplicate: set static = true.",
        ),
        (
            group_with('behaviours = [{do = "crash", at = "1m", renamed = true}]'),
            "group a, behaviour 1: only a static member has an instance id that changes: set",
        ),
        (
            group_with('[[groups.behaviours]]\ndo = "drain"\nat = "1m"\ndrained = 4'),
            "line 13: group a, behaviour 1: drained is 4, and there are 3 nodes.",
        ),
        (
            group_with('[[groups.behaviours]]\ndo = "drain"\nat = "1m"\nmaxUnavailable = 0'),
            "line 13: group a, behaviour 1: maxUnavailable is 0: no pod could be evicted.",
        ),
        (
            group_with(AUTOSCALE, "minReplicaCount = 101"),
            "line 15: group a, behaviour 1: minReplicaCount is more than maxReplicaCount, 100.",
        ),
        (
            group_with(AUTOSCALE.replace('"2m"', '"1m"')),
            "line 14: group a, behaviour 1: each of arrivals must begin after the one before.",
        ),
        (
            group_with(AUTOSCALE, 'every = "0s"'),
            "line 15: group a, behaviour 1: every is less than 1 s.",
        ),
        (
            group_with(AUTOSCALE.replace("per_second = 1 }", "per_second = -1 }")),
            "line 14: group 1: behaviour 1: arrival 1: per_second is -1: expected",
        ),
        (
            group_with(AUTOSCALE, 'every = "4m"'),
            "line 15: group a, behaviour 1: every is 240 s, and it ends 240 s after it began: it"
            " never looks.",
        ),
        (
            group_with(AUTOSCALE, 'every = "30s"', 'until = "90s"'),
            "line 14: group a, behaviour 1: arrival 2 is after its end: nothing would happen.",
        ),
        (
            group_with(AUTOSCALE.replace('"2m"', '"5m"')),
            "line 14: group a, behaviour 1: arrival 2 is after its end: nothing would happen.",
        ),
        *(
            (
                group_with('revoke_time = "1s"', "replicas = 4", f"slow_pods = {slow}"),
                f"line 12: group a: slow_pods is {said}",
            )
            for slow, said in (
                ("0", "0: nothing would happen."),
                ('"0%"', "0%: nothing would happen."),
                ("5", "5, and the group has 4 pods."),
            )
        ),
        (
            group_with('protocol = "share"', "commit_interval_ms = 9000"),
            "line 11: group a: members of share groups commit no offsets.",
        ),
        *(
            (
                group_with('start_time = "4m"', f"[[groups.behaviours]]\n{line}"),
                "line 10: group a: start_time is 240 s: no pod that behaviour 1 creates would start"
                " before the end.",
            )
            for line in (
                'do = "rolling-deploy"\nat = "1m"',
                'do = "scale"\nat = "1m"\nreplicas = 4',
                'do = "drain"\nat = "1m"',
                'do = "churn"\nat = "1m"\nevery = "1m"',
            )
        ),
        (
            group_with(
                'behaviours = [{do = "flap", at = "1m", every = "5s", topics = ["orders"]}]'
            ),
            "line 10: group a, behaviour 1: the topics are those of the group: nothing would"
            " happen.",
        ),
        (
            group_with(AUTOSCALE, 'until = "1m"'),
            "line 15: group a, behaviour 1: until is not after at.",
        ),
        (
            group_with('behaviours = [{do = "churn", at = "1m", every = "5s", until = "30s"}]'),
            "line 10: group a, behaviour 1: until is not after at.",
        ),
        (
            group_with(
                '[[groups.behaviours]]\ndo = "flap"\nat = "1m"\nevery = "5s"',
                'topics = ["orders"]\nuntil = "0s"',
            ),
            "line 15: group a, behaviour 1: until is not after at.",
        ),
        *(
            (
                group_with("static = true", DEPLOY.replace("rolling-deploy", do), *more),
                f"group a, behaviour 1: {what}",
            )
            for do, more, what in (
                *(
                    (do, ["pods = 0", *more], "pods is 0: nothing would happen.")
                    for do, more in TO_SOME_PODS.items()
                ),
                ("crash", ['pods = "0%"'], "pods is 0%: nothing would happen."),
                ("pause", ["pods = 4", 'for = "1s"'], "pods is 4, and the group has at most 3."),
                ("duplicate", ['for = "0s"'], "for is 0: nothing would happen."),
                ("pause", ['for = "0s"'], "for is 0: nothing would happen."),
                ("poll-timeout", ['reason = "x"'], "only dynamic classic members tell a reason"),
            )
        ),
        (
            group_with(
                "replicas = 4", DEPLOY, '[[groups.behaviours]]\ndo = "crash"\nat = "2m"', "pods = 6"
            ),
            "line 18: group a, behaviour 2: pods is 6, and the group has at most 5.",
        ),
        (
            group_with(
                'protocol = "consumer"',
                'behaviours = [{do = "poll-timeout", at = "1m", reason = "x"}]',
            ),
            "line 11: group a, behaviour 1: only dynamic classic members tell a reason when they"
            " leave.",
        ),
        (
            f'joins_over = "2m"\n{GOOD}' + '[[faults]]\ndo = "kill"\nat = "1m"',
            "line 13: fault 1 begins before all members have joined.",
        ),
        (
            group_with('[[faults]]\ndo = "cut"\nat = "1m"\nfor = "0s"'),
            "line 13: fault 1: for is 0: nothing would happen.",
        ),
        (
            group_with('[[faults]]\ndo = "kill"\nat = "1m"\ngroup = "b"'),
            "line 13: fault 1: there is no group b.",
        ),
        (
            group_with('[[faults]]\ndo = "kill"\nat = "1m"\nnode = 3'),
            "line 13: fault 1: there is no node 3: the cluster has the nodes 0 to 2.",
        ),
        (
            "nodes = 12\n" + group_with('[[faults]]\ndo = "kill"\nat = "1m"\nnode = 12'),
            "line 14: fault 1: there is no node 12: the cluster has the nodes 0 to 11.",
        ),
        (
            group_with('[[faults]]\ndo = "kill"\nat = "1m"\nnode = -1'),
            "line 13: fault 1: node is -1: expected",
        ),
        (group_with('[[faults]]\ndo = "kill"\nat = "1h"'), "line 12: fault 1 begins after the end"),
        (group_with('[[faults]]\ndo = "freeze"\nat = "1m"'), "line 10: fault 1 lacks 'for'."),
        *(
            (GOOD.replace("orders", f'"{name}"', 1), f"line 4: a topic cannot be named '{name}'.")
            for name in ("a b", ".", "..", "a\\n", "__consumer_offsets", "x" * 101)
        ),
        (
            GOOD.replace("[[", "[topics.'a.b']\npartitions = 1\n[topics.a_b]\npartitions = 1\n[["),
            "line 9: Kafka cannot have both a.b and a_b: their names differ only in `.` and `_`.",
        ),
        (GOOD.replace('"a"', '"a\\n"'), "line 8: group 1: name is 'a\\n': expected text matching"),
        *(
            (
                group_with(f"expect = {{ unowned_seconds_max = {value} }}"),
                f"line 10: group 1: expect: unowned_seconds_max is {value}: expected a number",
            )
            for value in ("inf", "nan", "-1.0")
        ),
        (
            group_with('[configs]\n"a" = "1"\n"b" = 1\n"c" = 1'),
            "line 12: configs: b is 1: expected text, got a whole number. Scenario s, line 13:"
            " configs: c is 1",
        ),
        (
            GOOD + '[[variants]]\nname = "base"',
            "line 11: the scenario itself is base: name the variant otherwise.",
        ),
        (
            GOOD + '[[variants]]\nname = "v"\n[[variants]]\nname = "v"',
            "line 13: there are two variants v.",
        ),
        (
            GOOD + '[[variants]]\nname = "v"\ngroups.b.static = true',
            "line 12: variant v: there is no group b.",
        ),
        (
            GOOD + '[[variants]]\nname = "v"\ngroups.a.name = "b"',
            "line 12: variant v: a group keeps its name.",
        ),
        (
            GOOD + '[[variants]]\nname = "v"\ngroups.a.replicas = 0',
            "Scenario s, variant v, line 12: group 1: replicas is 0: expected a whole number",
        ),
        (
            GOOD + '[[variants]]\nname = "v"\nconfigs = { "no.such" = "1" }',
            "Scenario s, variant v, line 12: configs: ",
        ),
        (group_with('[configs]\n"no.such" = "1"'), "line 11: configs: "),
        (
            group_with('[configs]\n"group.initial.rebalance.delay.ms" = "x"'),
            "line 11: configs: ",
        ),
    ],
)
def test_a_bad_scenario_is_refused_in_one_sentence_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(DrillError) as refused:
        parse("s", text)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "setting",
    [
        *(each.encode_name for kind in (Scenario, Group) for each in fields(kind)),
        *(f"expect.{each.encode_name}" for each in fields(GroupLimits)),
    ],
)
def test_a_sentence_about_a_setting_of_another_type_has_no_type_of_a_parser(setting: str) -> None:
    """No setting may be a date."""
    lines = [f"{setting} = 2026-01-01", GOOD, f"{setting} = 2026-01-01"]
    for text in ("\n".join(lines[:2]), "\n".join(lines[1:])):
        with pytest.raises(DrillError) as refused:
            parse("s", text)
        assert not re.search(
            r"`|null|\bstr\b|\bint\b|\bfloat\b", str(refused.value).replace("`name`", "")
        )


def test_what_a_group_can_have_or_tell_is_accepted() -> None:
    later = '[[groups.behaviours]]\ndo = "{}"\nat = "2m"\n'
    crash, timeout = later.format("crash"), later.format("poll-timeout") + 'reason = "x"'
    for lines_of_group in (
        ["replicas = 4", DEPLOY, crash + "pods = 5"],
        [later.format("scale") + "replicas = 9", crash + "pods = 9"],
        [AUTOSCALE, "maxReplicaCount = 6", crash + "pods = 6"],
        ["copies = 1000", AUTOSCALE, "maxReplicaCount = 100000"],  # six partitions
        [AUTOSCALE, 'every = "3m59s"'],
        ['revoke_time = "1s"', "slow_pods = 3"],
        ['start_time = "239s"', DEPLOY],
        ['start_time = "1h"', crash + "pods = 3"],
        [timeout],
        ['protocol = "consumer"', DEPLOY + 'protocol = "classic"', timeout],
        ['protocol = "streams"', "rebalance_timeout_ms = 60000"],
        ['protocol = "consumer"', "session_timeout_ms = 9000", BACK],
    ):
        assert parse("s", group_with(*lines_of_group)).groups


def test_configs_are_checked_together() -> None:
    low = '"group.consumer.min.heartbeat.interval.ms" = "500"'
    interval = '"group.consumer.heartbeat.interval.ms" = "500"'
    assert len(parse("s", group_with("[configs]", interval, low)).configs) == 2
    with pytest.raises(DrillError, match=r"line 11: configs: .* must not be greater than"):
        parse("s", group_with("[configs]", interval))


def test_every_mistake_is_told() -> None:
    with pytest.raises(DrillError) as refused:
        parse("s", f"seed = -1\n{GOOD}replicas = 0\nstatics = true\nstart_time = 1\n")
    told = [part.split(":")[0] for part in str(refused.value).split("Scenario s, ")[1:]]
    assert sorted(told) == ["line 1", "line 11", "line 12", "line 13"]


def test_a_file_that_is_not_there_or_no_text_is_told(tmp_path) -> None:
    for data, why in ((None, "cannot be read"), (b"\xff", "is not UTF-8"), (b" " * 70_000, "KiB")):
        path = tmp_path / "s.toml"
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(DrillError, match=why):
            found(str(path))
    with pytest.raises(DrillError, match="There is no scenario 'nothing': see --list"):
        found("nothing")


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert found(str(path)).groups[0].name == "a"


@pytest.mark.parametrize(
    "text",
    [
        "about = " + "[" * 20_000,
        "about = " + "[" * 20_000 + "]" * 20_000,
        "about = " + "[" * 350 + "]" * 350,
        "a." * 5_000 + "b = 1",
    ],
    ids=["no end", "deep", "too deep to be told", "keys"],
)
def test_a_file_that_is_nested_too_deeply_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(DrillError) as refused:
        parse("s", text)
    assert str(refused.value).startswith("Scenario s")
    assert "\n" not in str(refused.value)


def test_the_line_of_a_value_of_several_lines_is_its_first() -> None:
    text = 'a = 1\n\n# b\nb = [\n  1,\n]\n[[c]]\nd = """\nx\n"""\n[[c]]\n'
    assert line_of(text, ("b",)) == 4
    assert line_of(text, ("b", 0)) == 4
    assert line_of(text, ("c", 0)) == 7
    assert line_of(text, ("c", 0, "d")) == 8
    assert line_of(text, ("c", 1)) == 11
    assert line_of(text, ("e",)) is None


def test_texts_and_comments_do_not_hide_where_a_setting_begins() -> None:
    text = (
        'a = """\n[ "" \\""" # {\n""""" # ]\n"b]" = \'[\'\n# [ \u2028 "\nc = \'\'\'\n}\'\'\'\'\r\n'
        'd = { e = [ # ]\n  \']\', \n] }\nf = "\\"["\ng.h = 1'
    )
    places = [("a",), ("b]",), ("c",), ("d",), ("d", "e", 0), ("f",), ("g",), ("g", "h")]
    assert [line_of(text, each) for each in places] == [1, 4, 6, 8, 8, 11, 12, 12]


def test_the_line_of_a_setting_of_a_long_file_takes_a_few_parses(monkeypatch) -> None:
    """The file of one list of 3,000 lines is the worst: it is no TOML up to any of them."""
    parses = []
    monkeypatch.setattr(
        lines.tomllib, "loads", lambda text, loads=tomllib.loads: parses.append(text) or loads(text)
    )
    many = "".join(f"a{number} = {number}\n" for number in range(3_000))
    assert line_of(many, ("a2500",)) == 2_501
    assert line_of("b = [\n" + "1,\n" * 3_000 + "]\nc = 1\n", ("c",)) == 3_003
    assert len(parses) <= 20


@given(st.integers(0, DURATION_MS_MAX))
def test_a_duration_is_read_as_it_is_written(total_ms: int) -> None:
    hours, rest = divmod(total_ms, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds, ms = divmod(rest, 1_000)
    assert Duration.of(f"{hours}h{minutes}m{seconds}s{ms}ms") == total_ms


@settings(max_examples=examples(200))
@given(st.text(alphabet='abg="[]{}\n .1h#', max_size=80))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    try:
        parse("s", GOOD + text)
    except DrillError as error:
        assert str(error)


@given(st.integers(0, 1_000), st.integers(0, 100))
def test_a_percentage_of_pods_is_rounded_as_kubernetes_does(whole: int, percent: int) -> None:
    amount = Amount.parse(f"{percent}%")
    exact = whole * percent / 100
    assert amount.of(whole, rounds_up=False) <= exact <= amount.of(whole, rounds_up=True)
    assert amount.of(whole, rounds_up=True) - amount.of(whole, rounds_up=False) <= 1


def test_a_fault_may_hit_every_node_that_the_scenario_has():
    text = group_with('[[faults]]\ndo = "kill"\nat = "1m"\nnode = 11')
    (fault,) = parse("s", f"nodes = 12\n{text}").faults
    assert fault.node == 11


def test_a_variant_may_have_other_faults() -> None:
    kill = 'faults = [{ do = "kill", at = "2s", for = "5s" }]\n'
    found = parse_variants(
        "s",
        kill + GOOD + '[[variants]]\nname = "v"\nfaults = [{ do = "restart", at = "3s" }]\n'
        '[[variants]]\nname = "calm"\nfaults = []\n[[variants]]\nname = "same"\n',
    )  # fmt: skip
    assert {name: [type(each) for each in scenario.faults] for name, scenario in found.items()} == {
        "base": [KillCoordinator],
        "v": [RestartCoordinator],
        "calm": [],
        "same": [KillCoordinator],
    }
    assert (found["base"].faults[0].lasts, found["v"].faults[0].lasts) == (5_000, None)


def test_a_mistake_in_the_faults_of_a_variant_is_told_with_its_line() -> None:
    text = GOOD + '[[variants]]\nname = "v"\n[[variants.faults]]\ndo = "kill"\nat = "3h"\n'
    line = text.splitlines().index('at = "3h"') + 1
    with pytest.raises(DrillError, match=f"variant v, line {line}: fault 1 begins after the end"):
        parse("s", text)
