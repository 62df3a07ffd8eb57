"""Command lines of every kind, in this process: an exit code and words come back, never an exception."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Cli
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from in_process import outcome
from selection import cases

from worldsize.cli.main import VERBS
from worldsize.trust.secrets import mask_argv

CASES = cases()
STARTING = ("run", "submit", "rerun", "rehearse", "check", "bench")
APART = ("init", "selftest", "debug")
"""Verbs that write here, or start runs, whatever their words are."""

HARMLESS = sorted(set(VERBS) - {*APART})

OPTIONS = [
    "--help", "-h", "--version", "-w", "--world", "--set", "--compute", "--name", "--dry-run", "-d", "--detach",
    "--fold", "-q", "--quiet", "--code", "-a", "--all", "-n", "--state", "-o", "--output", "--timeout", "--now",
    "--older-than", "--keep", "-f", "--follow", "--rank", "--node", "--grep", "--tail", "--raw", "--origin",
    "--force", "--yes", "--", "--wrong", "-x", "--tial=3", "--set=inputs.lr=1", "-w2x2", "-ojson",
]  # fmt: skip
VALUES = [
    "job.yml", "bad.yml", "missing.yml", "missing", "missing.txt", "job", "-", "./missing", "train.py", ".", "..", "/",
    "/dev/null", "2x2", "1", "0", "-1", "2x",
    "1e9", "nan", "inf", "0-1", "3-1", "0,0", "json", "text", "same", "off", "show", "bash", "zsh", "local",
    "nowhere", "FAILED", "running", "30d", "0s", "x=", "=x", "inputs.lr=0.1", "inputs.lr",
    "resources.instance_count=0", "command=echo", "environment_variables.RANK=3", "distribution.type=pytorch", "(",
    ".*", "python", "echo", "${{inputs.x}}", "help", "version", "latest",
]  # fmt: skip

text = st.text(st.characters(exclude_characters="\0"), max_size=20)
word = (
    st.sampled_from(OPTIONS)
    | st.sampled_from(VALUES)
    | text
    | st.builds("{}={}".format, st.sampled_from(OPTIONS), text)
)
lines = st.tuples(st.sampled_from(HARMLESS), st.lists(word, max_size=8)).map(lambda pair: [pair[0], *pair[1]])
loose = st.lists(word | st.sampled_from(HARMLESS), max_size=8)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project with job files, and a home with a run that succeeded and one that failed."""
    cli = Cli(str(tmp_path_factory.mktemp("fuzz")))
    cli.write("job.yml", "command: echo ${{inputs.lr}}\ninputs: {lr: 0.1}\n")
    cli.write("bad.yml", "comand: [\n")
    cli.write("train.py", "")
    cli.run("-w", "1x2", "--", "echo", "hello")
    cli.run("--", "sh", "-c", "exit 3", code=3)
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("WORLDSIZE_") and name != "WORLDSIZE_FUZZ_CASES":
                patch.delenv(name)
        patch.setenv("WORLDSIZE_HOME", cli.home)
        patch.setenv("WORLDSIZE_SITE_CONFIG", cli.environ["WORLDSIZE_SITE_CONFIG"])
        patch.setenv("HOME", cli.root)
        patch.chdir(cli.project)
        yield Path(cli.root)
    cli.close()


def harmless(words: list[str]) -> list[str]:
    """What would start a run only shows it; nothing is removed."""
    verb = next((word for word in words if not word.startswith("-")), "")
    if verb in (*STARTING, "prune", "rm"):
        cut = words.index(verb) + 1
        return [*words[:cut], "--dry-run", *words[cut:]]
    return [word for word in words if word not in APART]


def runs(project: Path) -> list[str]:
    return sorted(name for name in os.listdir(project / "home" / "runs") if not name.startswith("."))


def check(project: Path, words: list[str]) -> None:
    before = runs(project)
    code, out, err = outcome(harmless(words))
    assert code in (0, 1, 2, 3, 124), (words, err)
    assert "[Errno" not in err, (words, err)
    assert "Traceback" not in out + err
    assert err.strip() if code == 2 else True
    assert runs(project) == before


@pytest.mark.heavy
@settings(max_examples=CASES, suppress_health_check=list(HealthCheck))
@given(lines)
@example(["run", "train.py"])
@example(["run", "missing"])
@example(["submit", "-"])
@example(["run", "python", "train.py", "python"])
@example(["run", "--", "\udcff"])
@example(["run", "\udcff.yml"])
@example(["status", "\ud800"])
@example(["list", "-n", "9" * 5000])
@example(["prune", "--older-than", "9" * 5000 + "s"])
@example(["logs", "--rank", "0-99999999"])
@example(["logs", "--grep", "(" * 1000])
@example(["run", "-w", "٣x٣", "--", "echo"])
@example(["run", "job.yml", "--set", "inputs.lr=" + "[" * 2000])
def test_any_words_after_a_verb(project: Path, words: list[str]) -> None:
    check(project, words)


@settings(max_examples=CASES, suppress_health_check=list(HealthCheck))
@given(loose)
@example(["--", "--"])
@example(["help", "help"])
@example(["-w", "2x2"])
def test_any_words(project: Path, words: list[str]) -> None:
    check(project, words)


@settings(max_examples=CASES, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["inputs.lr", "command", "distribution"]) | text, text | st.sampled_from(VALUES))
@example("inputs.lr", "'")
@example("command", "${{inputs.lr}}")
@example("distribution", "{a: &a [*a]}")
def test_any_setting(project: Path, key: str, value: str) -> None:
    check(project, ["run", "job.yml", "--set", "%s=%s" % (key, value)])


def without_word(shown: str, word: str) -> str:
    """What is left of a command line that begins with this word, as it is or as bash reads $'…'."""
    plain = shlex.quote(word).encode("utf-8", "backslashreplace").decode()
    if word.isprintable():
        assert shown.startswith(plain)
        return shown[len(plain) :].removeprefix(" ")
    escaped = re.match(r"\$('(?:[^'\\\n]|\\.)*') ?", shown)
    assert escaped and ast.literal_eval(escaped[1]).encode("utf-8", "backslashreplace") == word.encode(
        "utf-8", "backslashreplace"
    )
    return shown[escaped.end() :]


@settings(max_examples=CASES, suppress_health_check=list(HealthCheck))
@given(st.lists(st.text(st.characters(exclude_characters="\0"), max_size=20), min_size=1, max_size=5))
@example(["train", "--password", ""])
def test_any_command_is_shown_exactly(project: Path, words: list[str]) -> None:
    """What the dry run prints for a shell is what was typed, word for word, in one line; `***` for a secret."""
    code, out, err = outcome(["run", "--dry-run", "--", *words])
    if code == 0:
        _, _, rest = out.partition("# the command of every rank")
        shown = rest.partition("\n")[2]
        for word in mask_argv(words):
            shown = without_word(shown, word)
        assert shown.startswith("\n")
    else:
        assert code == 2 and err
