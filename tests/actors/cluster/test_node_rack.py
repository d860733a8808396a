"""Which rack a coordinator says it is on."""

from dataclasses import replace

import pytest

from actors.cluster.node_rack import LABEL, RACK, VARIABLE, with_node_rack
from actors.cluster.spec import Address, ClusterSpec, on_one_host

SPEC = ClusterSpec(
    cluster_id="c",
    places=on_one_host("h", (1,)),
    console=Address(host="h", port=2),
    data_dir="d",
    overrides={},
    workers=0,
)


@pytest.mark.parametrize(
    ("variable", "label", "config", "rack"),
    [
        ("", "", "", None),
        ("", "", "of all", "of all"),
        ("", "zone", "of all", "zone"),
        ("room", "zone", "of all", "room"),
    ],
)
def test_a_ray_node_s_own_rack_comes_before_the_config(
    variable: str, label: str, config: str, rack: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, variable)
    overrides = {RACK: config} if config else {}
    spec = with_node_rack(replace(SPEC, overrides=overrides), {LABEL: label} if label else {})
    assert spec.node(0, up=True).rack == rack
