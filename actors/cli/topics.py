"""``rollcall topics``: create, delete, list, describe, alter; flags as in ``kafka-topics.sh``."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from actors.cli import admin
from actors.cli.client import ClientError
from actors.cli.session import (
    FAILED,
    add_connection_flags,
    complain,
    connected,
    show,
    tell_done,
    tell_failed,
)
from actors.errors import BadInputError
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction
    from collections.abc import Callable, Iterable, Mapping

    from actors.cli.client import AdminClient

STATUS: Final = ("TOPIC", "STATUS")
TIMEOUT: Final = timedelta(seconds=10)


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add ``rollcall topics``."""
    parser = subparsers.add_parser(
        "topics", help="create, delete, list and describe topics; add partitions"
    )
    add_connection_flags(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    for name, text in (
        ("list", "list all topics"),
        ("describe", "show topics and their partitions"),
        ("create", "create topics"),
        ("delete", "delete topics"),
        ("alter", "add partitions to topics"),
    ):
        action.add_argument(f"--{name}", dest="action", action="store_const", const=name, help=text)
    parser.add_argument(
        "--topic", action="append", default=[], metavar="T", help="a topic; may be repeated"
    )
    parser.add_argument("--partitions", type=int, metavar="N", help="the number of partitions")
    parser.add_argument(
        "--replication-factor",
        type=int,
        default=-1,
        metavar="N",
        help="with --create: the number of replicas",
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="with --create: a topic config",
    )
    parser.add_argument(
        "--if-not-exists", action="store_true", help="with --create: ignore existing topics"
    )
    parser.add_argument(
        "--if-exists",
        action="store_true",
        help="with --delete, --alter, --describe: ignore missing topics",
    )
    parser.add_argument(
        "--exclude-internal", action="store_true", help="do not show internal topics"
    )
    parser.set_defaults(run=connected(topics))


def topics(client: AdminClient, args: Namespace) -> int:
    """Run the action that the flags select."""
    return ACTIONS[args.action](client, args)


def _list(client: AdminClient, args: Namespace) -> int:
    found = _existing(client, args)
    if args.json:
        show(args, ("TOPIC", "TOPIC-ID"), [(topic.name, topic.topic_id) for topic in found])
    else:
        for topic in found:
            print(topic.name)
    return 0


def _describe(client: AdminClient, args: Namespace) -> int:
    found = _existing(client, args)
    header = ("TOPIC", "TOPIC-ID", "PARTITION", "LEADER", "REPLICAS", "ISR")
    rows = [
        (
            topic.name,
            topic.topic_id,
            partition.partition_index,
            partition.leader_id if partition.leader_id >= 0 else "none",
            ",".join(map(str, partition.replica_nodes)),
            ",".join(map(str, partition.isr_nodes)),
        )
        for topic in found
        for partition in sorted(topic.partitions, key=lambda p: int(p.partition_index))
    ]
    show(args, header, rows)
    return 0


def _existing(client: AdminClient, args: Namespace) -> list[Any]:
    """Return the named topics, or all; raises ClientError when a named one does not exist.

    As in Kafka's tool, ``--list`` and ``--if-exists`` leave it out instead.
    """
    leaves_out_missing = not args.topic or args.action == "list" or args.if_exists
    shown = []
    for topic in client.metadata(args.topic or None).topics:
        if topic.error_code == ErrorCode.unknown_topic_or_partition and leaves_out_missing:
            continue
        if args.topic and topic.error_code != ErrorCode.none:
            raise ClientError(f"topic {topic.name}: {admin.said(topic.error_code)}")
        if not (args.exclude_internal and topic.is_internal):
            shown.append(topic)
    return sorted(shown, key=lambda each: str(each.name))


def _create(client: AdminClient, args: Namespace) -> int:
    configs = tuple(_config(text) for text in args.config)
    wanted = tuple(
        CreatableTopic(
            name=name,
            num_partitions=-1 if args.partitions is None else args.partitions,
            replication_factor=args.replication_factor,
            assignments=(),
            configs=configs,
        )
        for name in _named(args)
    )
    answer = client.ask(CreateTopicsRequest(topics=wanted, timeout=TIMEOUT))
    ignored = {ErrorCode.topic_already_exists} if args.if_not_exists else set()
    return _report(args, answer.topics, "created", ignored)


def _config(text: str) -> CreatableTopicConfig:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadInputError(f"{text!r} is not a config: give NAME=VALUE")
    return CreatableTopicConfig(name=name, value=value)


def _delete(client: AdminClient, args: Namespace) -> int:
    wanted = tuple(DeleteTopicState(name=name, topic_id=None) for name in _named(args))
    answer = client.ask(DeleteTopicsRequest(topics=wanted, timeout=TIMEOUT))
    ignored = {ErrorCode.unknown_topic_or_partition} if args.if_exists else set()
    return _report(args, answer.responses, "deleted", ignored)


def _alter(client: AdminClient, args: Namespace) -> int:
    if args.partitions is None:
        raise BadInputError("--alter needs --partitions")
    wanted = tuple(
        CreatePartitionsTopic(name=name, count=args.partitions, assignments=None)
        for name in _named(args)
    )
    answer = client.ask(
        CreatePartitionsRequest(topics=wanted, timeout=TIMEOUT, validate_only=False)
    )
    ignored = {ErrorCode.unknown_topic_or_partition} if args.if_exists else set()
    return _report(args, answer.results, "altered", ignored)


def _named(args: Namespace) -> list[str]:
    if not args.topic:
        raise BadInputError(f"--{args.action} needs at least one --topic")
    names: list[str] = args.topic
    return names


def _report(args: Namespace, results: Iterable[Any], done: str, ignored: set[ErrorCode]) -> int:
    code = 0
    for each in results:
        if each.error_code == ErrorCode.none:
            tell_done(args, f"topic {each.name} is {done}", STATUS, (each.name, done))
        elif each.error_code not in ignored:
            code = FAILED
            why = admin.said(each.error_code, each.error_message)
            complain(f"topic {each.name} is not {done}: {why}")
            tell_failed(args, STATUS, (each.name, why))
    return code


ACTIONS: Final[Mapping[str, Callable[[AdminClient, Namespace], int]]] = {
    "list": _list,
    "describe": _describe,
    "create": _create,
    "delete": _delete,
    "alter": _alter,
}
