"""franz-go, the Go client, with a static member; skipped where there is no Go."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients import wire
from tests.clients.confluent import create_topics
from tests.program import Program
from tests.waiting import until

Closing = Callable[[Callable[[], object]], object]

SOURCES = Path(__file__).with_name("go")
BUILT = Path(__file__).resolve().parent.parent.parent / ".deps" / "franz-go" / "member"


@pytest.fixture(scope="module")
def program() -> Path:
    """Build the member; Go fetches the library through its module proxy the first time."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed: franz-go is not tested")
    command = ["go", "build", "-o", str(BUILT), "."]
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "dial tcp" in done.stderr:
        pytest.skip("Go's module proxy cannot be reached: franz-go is not tested")
    assert done.returncode == 0, done.stderr
    return BUILT


class GoMember(Program):
    """One process of the Go program."""

    def __init__(self, program: Path, *arguments: str) -> None:
        super().__init__([str(program), *arguments], errors=None)

    def commit(self) -> None:
        """Commit offset 7 of each partition."""
        self.say("commit")

    def owned(self) -> set[int]:
        """Partitions that it was given and not told to give up since."""
        owned: set[int] = set()
        for what, _, partitions in (line.partition(" ") for line in list(self.lines)):
            numbers = {int(p) for p in partitions.split(",") if p.isdigit()}
            owned = owned | numbers if what == "ASSIGNED" else owned - numbers
        return owned


@pytest.mark.timeout(300)
def test_a_static_member_that_was_killed_comes_back_to_its_partitions(
    program: Path, bootstrap: str, name: str, closing: Closing
) -> None:
    create_topics(bootstrap, [name], 4)
    stays = GoMember(program, bootstrap, name, name, "stays")
    closing(stays.kill)
    restarts = GoMember(program, bootstrap, name, name, "restarts")
    pair = (stays, restarts)
    until(lambda: sorted(map(len, (m.owned() for m in pair))) == [2, 2], 30, "two for each")
    until(lambda: wire.describe(bootstrap, name).group_state == "Stable", 20, "Stable")
    restarts.commit()
    until(lambda: "COMMITTED" in restarts.lines, 20, "the commit is acknowledged")
    before, told = restarts.owned(), list(stays.lines)
    generation = wire.generation_of(bootstrap, name)
    restarts.kill()

    again = GoMember(program, bootstrap, name, name, "restarts")
    closing(again.kill)
    until(lambda: again.owned() == before, 30, "the same partitions as before")
    assert wire.generation_of(bootstrap, name) == generation
    assert wire.offsets(bootstrap, name) == {(name, p): 7 for p in before}
    assert stays.lines == told
