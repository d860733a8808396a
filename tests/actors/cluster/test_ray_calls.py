"""Ray's driver in our commands prints nothing of its own: their output is read by programs."""

import pytest
import ray
from ray._private import worker

from actors.cluster import ray_calls


def test_ray_prints_nothing_of_lost_nodes_between_our_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(worker, "print_to_stdstream", worker.print_to_stdstream)
    monkeypatch.setattr(ray, "init", lambda **_: None)
    lost = {"lines": ["The node ... has been marked dead"], "pid": "raylet", "is_err": False}
    worker.print_to_stdstream(lost, ignore_prefix=False)
    assert "marked dead" in capsys.readouterr().out
    ray_calls.connect("127.0.0.1:1")
    worker.print_to_stdstream(lost, ignore_prefix=False)
    assert capsys.readouterr().out == ""
