"""What a shell script's variables hold when each command is reached: what bash itself says, or nothing."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_strategies import fuzz

from worldsize.wings.batch_scripts.script.shell_values import UNKNOWN, ExpandedCommand, expanded_commands

GIVEN = {"N": "2", "T": "4", "EMPTY": ""}


def last(text: str) -> ExpandedCommand:
    return expanded_commands(text, GIVEN)[-1]


@pytest.mark.parametrize(
    "text",
    [
        "echo $N ${T} $((N * T + 1)) $(($N*(T-1)/2)) \"$N x\" '$N' \\$N a$N",
        'A=$((N*4)); B=$A; echo $B ${A:-9} ${EMPTY:-9} ""',
        "export A=1 B=$N\necho $A $B # $T",
        "X='a b'; echo $X \"$X\" x$X",
        "A=1 # c\nA=2 true\necho $A",
        "cat <<EOF >/dev/null\nA=7 $(false) `false`\nEOF\nA=3; echo $A",
        "echo one \\\n  two$N",
        'A=1; unset A; echo "[$A]"',
        "declare -x A=5; readonly B=6; echo $A$B",
        "echo $N >/dev/null; echo a 2>&1 b >&1 <<<x",
        "echo '#' a#b \"$((  T % 3  ))\"",
    ],
)
def test_as_bash(text: str) -> None:
    """The words of the last command are those that bash gives it."""
    shown = text.rpartition("echo ")[0] + "printf '%s\\n' " + text.rpartition("echo ")[2]
    said = subprocess.run(["bash", "-c", shown], env={**GIVEN, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True)
    assert list(last(text).words[1:]) == said.stdout.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        "A=$(hostname)",
        "A=`hostname`",
        "A=$UNHEARD",
        "A=${N%%x}",
        "A=$((N + UNHEARD))",
        "A=$((1/0))",
        "if true; then A=1; fi",
        "true && A=1",
        "for A in 1 2; do :; done\nA=$A",
        "f() { A=1; }",
        "read A",
        "A=1; source settings.sh",
        'A=1; eval "$X"',
        "case $N in 2) A=1;; esac",
        "(A=1)",
    ],
)
def test_what_cannot_be_known_is_not_known(text: str) -> None:
    seen = last("A=0\n%s\necho $A" % text)
    assert seen.words == ("echo", UNKNOWN) or "(A=1)" in text


@pytest.mark.parametrize("text", ["source ~/venv/bin/activate", ". /etc/profile", 'eval "$(conda shell.bash hook)"'])
def test_environments_leave_variables_alone(text: str) -> None:
    assert last("A=1\n%s\necho $A" % text).words == ("echo", "1")


@pytest.mark.parametrize(
    ("text", "certain"),
    [
        ("srun x", True), ("srun x | tee log", True), ("true && srun x", False), ("while :; do srun x; done", False),
        ("srun x &", True), ("if a; then b; fi; srun x", True), ("f() { srun x; }", False), ("{ srun x; }", False),
        ("case a in a) b;; esac\nsrun x", True), ("a || srun x", False), ("(cd b; c)\nsrun x", True),
    ],
)  # fmt: skip
def test_which_commands_are_certain(text: str, certain: bool) -> None:
    (seen,) = [seen for seen in expanded_commands(text, {}) if seen.words == ("srun", "x")]
    assert seen.certain == certain


def test_lines_and_exports() -> None:
    text = "A=1\nexport B=2\nexport A\nC=3 srun \\\n x\nsrun y"
    first, second = [seen for seen in expanded_commands(text, {}) if seen.words[0] == "srun"]
    assert (first.line, second.line) == (4, 6)
    assert {name for name, each in first.variables.items() if each.exported} == {"A", "B", "C"}
    assert "C" not in second.variables


@fuzz
@given(
    st.lists(
        st.sampled_from(
            ["srun ", "$X", "$((", "))", "$(", ")", "`", "'", '"', "\\", "\n", "#", "<<E\n", "E\n", "if ", "fi\n", "{",
             "}", "export ", "A=", "(", ";", "&&", "|", ">", "${", "case x in\n", "é", "a"]
        ),
        max_size=30,
    )
)  # fmt: skip
def test_any_text_is_read(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert all(1 <= seen.line <= text.count("\n") + 1 for seen in expanded_commands(text, {}))
