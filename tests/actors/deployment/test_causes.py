"""What an operator is told when an actor fails: one sentence, whatever Ray wraps around it."""

import pytest
from ray.exceptions import ActorDiedError, RayActorError, RayTaskError

from actors.cluster.ray_peers import cause, first_line

TRACEBACK = """\x1b[36mray::CoordinatorActor.__init__()\x1b[39m (pid=7, ip=127.0.0.1)
  File "python/ray/_raylet.pyx", line 1, in ray._raylet.execute_task
  File "actors/deployment/actors.py", line 77, in __init__
    log_to_file(spec.text_log_path(name))
PermissionError: [Errno 13] Permission denied: '/data/logs'
"""


def task_error(text: str) -> RayTaskError:
    return RayTaskError("__init__", text, ValueError(), proctitle="ray", pid=7, ip="127.0.0.1")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (task_error(TRACEBACK), "[Errno 13] Permission denied: '/data/logs'"),
        (ActorDiedError(task_error(TRACEBACK)), "[Errno 13] Permission denied: '/data/logs'"),
        (
            RayActorError(None, "The actor died unexpectedly.\n\tclass_name: A\n\tpid: 7"),
            "The actor died unexpectedly.",
        ),
        (RayActorError(None, "\x1b[31mThe actor died.\x1b[0m"), "The actor died."),
        (RayActorError(None, ""), "RayActorError"),
    ],
)
def test_the_cause_is_one_sentence_without_colour(error: Exception, sentence: str) -> None:
    assert cause(error) == sentence


def test_a_first_line_has_no_colour() -> None:
    assert "\x1b" not in first_line(task_error(TRACEBACK))
