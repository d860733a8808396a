"""A consumer in a process of its own, to be killed: BOOTSTRAP GROUP TOPIC [INSTANCE_ID].

Prints each assignment as one line, ``ASSIGNED topic:partition,...``.
"""

import sys

from confluent_kafka import Consumer, TopicPartition

from tests.waiting import LONG_SESSION_MS, SESSION_MS


def main() -> None:
    """Poll until killed."""
    bootstrap, group_id, topic, *instance = sys.argv[1:]
    settings: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "group.id": group_id,
        "session.timeout.ms": LONG_SESSION_MS if instance else SESSION_MS,
        "heartbeat.interval.ms": 200,
        "enable.auto.commit": False,
    }
    if instance:
        settings["group.instance.id"] = instance[0]

    def tell(_: Consumer, partitions: list[TopicPartition]) -> None:
        owned = sorted(f"{p.topic}:{p.partition}" for p in partitions)
        print("ASSIGNED", ",".join(owned), flush=True)  # noqa: T201

    consumer = Consumer(settings)
    consumer.subscribe([topic], on_assign=tell)
    while True:
        consumer.poll(0.2)


if __name__ == "__main__":
    main()
