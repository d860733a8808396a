"""``rollcall completion``: a shell with the script completes what the command line has."""

import shutil
import subprocess

import pytest

from actors.cli.main import main
from tests.waiting import patient

COMPLETE = """
source /dev/stdin
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
$(complete -p rollcall | sed -E 's/.*-F ([^ ]+) .*/\\1/')
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(script: str, *words: str) -> set[str]:
    """Ask bash for what may follow."""
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", "rollcall", *words],
        input=script,
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_flags_and_drills(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert {"groups", "log", "completion", "drill"} <= completed(script, "")
    assert completed(script, "groups", "--to-d") == {"--to-datetime"}
    assert "--reset-offsets" in completed(script, "groups", "--re")
    assert completed(script, "log", "dump", "--max") == {"--max-records"}
    assert "kill-leader" in completed(script, "drill", "kill-")


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_there_is_a_script_for_other_shells(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "rollcall" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_zsh_takes_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zsh"]) == 0
    script = capsys.readouterr().out
    begin = 'autoload -Uz compinit; compinit -u -D; eval "$(cat)"; print -r -- $_comps[rollcall]'
    done = subprocess.run(
        ["zsh", "-fc", begin],
        input=script,
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=True,
    )
    assert (done.stdout.strip(), done.stderr) == ("_shtab_rollcall", "")


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["completion", "cmd"])
    assert "invalid choice: 'cmd'" in capsys.readouterr().err
