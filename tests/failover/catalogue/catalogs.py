"""A catalogue asked in few words, and views of it."""

import random
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from failover.apis.table import NODE_HANDLERS
from failover.catalogue.catalog import Catalog, CatalogEvent, ClusterFormed, NodeChanged
from failover.catalogue.cluster_view import ClusterView, Node, effective_configs
from protocol.config import Configs
from protocol.groups.effects import ClientInfo, Request, Result
from protocol.records import Record
from protocol.wire import admin_messages as admin
from protocol.wire import messages as m
from protocol.wire.apis import API

CLIENT = ClientInfo("client", "/127.0.0.1")
T0 = 1_700_000_000_000
SECOND = timedelta(seconds=1)


class Keeper:
    """A catalogue of three nodes, and everything it wrote."""

    def __init__(self, nodes: int = 3, **configs: str) -> None:
        overrides = {name.replace("_", "."): text for name, text in configs.items()}
        self.configs = Configs(overrides)
        self.catalog = Catalog(self.configs, random.Random(1))
        self.records: list[Record] = []
        for number in range(nodes):
            self.do(NodeChanged(Node(number, f"host{number}", 9092 + number)))
        self.do(ClusterFormed([(number % nodes,) for number in range(3)]))
        self.records.clear()

    def do(self, event: CatalogEvent) -> Result:
        result = self.catalog.handle(event, T0)
        self.records += result.records
        return result

    def ask(self, api_key: int, message: Any) -> Any:
        (reply,) = self.do(request(api_key, message)).replies
        return reply.message

    def create(self, *topics: m.CreatableTopic, validate_only: bool = False) -> dict[str, Any]:
        """Ask CreateTopics; return the results by name."""
        message = m.CreateTopicsRequest(topics=topics, timeout=SECOND, validate_only=validate_only)
        return {one.name: one for one in self.ask(19, message).topics}

    def delete(self, *topics: str | UUID | m.DeleteTopicState) -> list[Any]:
        """Ask DeleteTopics; return the results."""
        states = tuple(
            one
            if isinstance(one, m.DeleteTopicState)
            else m.DeleteTopicState(
                name=one if isinstance(one, str) else None,
                topic_id=one if isinstance(one, UUID) else None,
            )
            for one in topics
        )
        message = m.DeleteTopicsRequest(topics=states, timeout=SECOND)
        return list(self.ask(20, message).responses)

    def alter(
        self, resource_type: int, name: str, *changes: tuple[str, int, str | None]
    ) -> tuple[Any, str | None]:
        """Ask IncrementalAlterConfigs (name, operation, value); return the error."""
        resource = m.AlterConfigsResource(
            resource_type=resource_type,
            resource_name=name,
            configs=tuple(
                m.AlterableConfig(name=config, config_operation=operation, value=value)
                for config, operation, value in changes
            ),
        )
        message = m.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        (answer,) = self.ask(44, message).responses
        return answer.error_code, answer.error_message

    def replace(
        self, resource_type: int, name: str, *, validate_only: bool = False, **configs: str | None
    ) -> tuple[Any, str | None]:
        """Ask AlterConfigs, "_" for "." in names; return the error."""
        resource = admin.LegacyConfigsResource(
            resource_type=resource_type,
            resource_name=name,
            configs=tuple(
                admin.LegacyConfig(name=config.replace("_", "."), value=value)
                for config, value in configs.items()
            ),
        )
        message = admin.AlterConfigsRequest(resources=(resource,), validate_only=validate_only)
        (answer,) = self.ask(33, message).responses
        assert (answer.resource_type, answer.resource_name) == (resource_type, name)
        return answer.error_code, answer.error_message

    def view(self, node_id: int = 0, leaders: Mapping[int, int] | None = None) -> ClusterView:
        image = self.catalog.image
        return ClusterView(
            node_id=node_id,
            cluster_id="cluster",
            catalog=image,
            static_configs=self.configs,
            configs=effective_configs(self.configs, image, node_id),
            leaders={0: 0, 1: 1, 2: 2} if leaders is None else leaders,
        )


def request(api_key: int, message: Any, api_version: int | None = None) -> Request:
    version = API[api_key].max_version if api_version is None else api_version
    return Request(ticket=1, api_key=api_key, api_version=version, client=CLIENT, message=message)


def answer(view: ClusterView, api_key: int, message: Any, api_version: int | None = None) -> Any:
    """Ask a node API."""
    return NODE_HANDLERS[api_key](view, request(api_key, message, api_version), T0)


def topic(
    name: str,
    partitions: int = -1,
    replication_factor: int = -1,
    configs: Mapping[str, str | None] | None = None,
    assignments: Iterable[tuple[int, tuple[int, ...]]] = (),
) -> m.CreatableTopic:
    return m.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=tuple(
            m.CreatableReplicaAssignment(partition_index=index, broker_ids=nodes)
            for index, nodes in assignments
        ),
        configs=tuple(
            m.CreatableTopicConfig(name=config, value=value)
            for config, value in (configs or {}).items()
        ),
    )
