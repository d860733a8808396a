"""Which rack a coordinator says it is on."""

from dataclasses import replace

import pytest

from actors.cluster.node_rack import LABEL, RACK, VARIABLE, with_node_rack
from actors.cluster.spec import Address, ClusterSpec, on_one_host

SPEC = ClusterSpec(
    cluster_id="c",
    places=on_one_host("h", (1, 2, 3)),
    console=Address(host="h", port=2),
    data_dir="d",
    overrides={},
    workers=0,
)


@pytest.mark.parametrize(
    ("given", "node_id", "rack"),
    [
        (("", "", ""), 0, None),
        (("", "", "of all"), 0, "of all"),
        (("", "zone", "of all"), 0, "zone"),
        (("room", "zone", "of all"), 0, "room"),
        (("a,b,c", "", ""), 0, "a"),
        (("a, b, c", "", "of all"), 2, "c"),
        (("a,b", "", ""), 2, "a"),
    ],
)
def test_a_ray_node_s_own_rack_comes_before_the_config(
    given: tuple[str, str, str], node_id: int, rack: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable, label, config = given
    monkeypatch.setenv(VARIABLE, variable)
    overrides = {RACK: config} if config else {}
    labels = {LABEL: label} if label else {}
    spec = with_node_rack(replace(SPEC, overrides=overrides), labels, node_id)
    assert spec.node(node_id, up=True).rack == rack
