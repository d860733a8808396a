"""A member of a group that commits all the time: BOOTSTRAP PROTOCOL GROUP CLIENT TOPIC [INSTANCE].

It prints ``READY``, and joins when it is told a line. It prints ``ASSIGNED`` with the number of its
partitions, and leaves when its input ends. The offset is the number of the client's id, one letter.
"""

import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.waiting import SESSION_MS

COMMIT_S = 0.3


def main() -> None:
    """Poll until the input ends."""
    bootstrap, protocol, group_id, client_id, topic, *instance = sys.argv[1:]
    settings: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "group.id": group_id,
        "client.id": client_id,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "log_level": 0,
        "reconnect.backoff.max.ms": 500,
    }
    if protocol == "classic":
        settings |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 200}
    if instance:
        settings["group.instance.id"] = instance[0]
    print("READY", flush=True)  # noqa: T201
    sys.stdin.readline()
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    shown, committed_s = -1, 0.0
    while not ended.is_set():
        consumer.poll(0.1)
        assigned = consumer.assignment()
        if len(assigned) != shown:
            shown = len(assigned)
            print("ASSIGNED", shown, flush=True)  # noqa: T201
        now_s = time.monotonic()
        if assigned and now_s - committed_s >= COMMIT_S:
            committed_s = now_s
            places = [
                TopicPartition(each.topic, each.partition, ord(client_id)) for each in assigned
            ]
            try:
                consumer.commit(offsets=places, asynchronous=True)
            except KafkaException:
                continue  # it is no member at the moment
    consumer.close()


if __name__ == "__main__":
    main()
