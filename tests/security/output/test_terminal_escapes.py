"""What jobs, runs of others and servers say drives no terminal, and is no line of worldsize's own."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import SOURCE, Cli
from terminal import Terminal

EVIL = (
    "\x1b[2J\x1b[8m\x1b[30;40m\x1b]0;title\x07\x1b]52;c;eA\x1b\\\x1bPq\x1b\\\x1bc\x9b2J\x9d0;x\x9c\x7f\0\x08\r"
    "\u061c\u200e\u200f"
    "\u202eevil\u2066\u2028FORGED\u2029FORGED\x85FORGED\x0bFORGED\x0cFORGED\rFORGED\r\nFORGED\nFORGED: it is\n"
    "  → FORGED"
)
SAID = EVIL.replace("\0", "")
"""As far as it can be in a command line, or in a variable of the environment."""

DRIVING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
OWN_COLOURS = re.compile("\x1b\\[(31|32|33|0)m")
COLOURS = re.compile("\x1b\\[[0-9;:]*m")
FORGED = re.compile(r"(?m)^(  → )?FORGED")


def check(shown: str, colours: re.Pattern[str] | None = None) -> None:
    """Nothing in it drives a terminal, but the colours named; no line of it is another's."""
    text = colours.sub("", shown) if colours else shown
    assert not DRIVING.search(text), ascii(text)
    assert not FORGED.search(text), text


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    cli = Cli(str(tmp_path_factory.mktemp("terminal")))
    yield cli
    cli.close()


def job(**more: object) -> str:
    text = "said" + SAID
    said = {"display_name": text, "description": text, "experiment_name": text, "tags": {"a": text}}
    return json.dumps({"command": "python train.py", **said, **more})


@pytest.fixture(scope="module")
def run(cli: Cli) -> str:
    """A run that failed, of a job that says no good."""
    cli.write("train.py", "print(%r)\nraise ValueError(%r)\n" % (EVIL.replace("\n", " "), "why" + EVIL))
    cli.write("job.yml", job(code=".", environment_variables={"A": SAID, "B" + SAID: "b"}))
    result = cli("run", "job.yml", PYTHONIOENCODING="utf-8")
    assert result.code == 1, result
    cli.write("said.json", json.dumps([result.out, result.err]))
    return cli.latest()


def spoil(value: Any, kept: tuple[str, ...] = ()) -> Any:
    """Every text in it, but those that are to be kept as they are."""
    if isinstance(value, dict):
        return {key: each if key in kept else spoil(each, kept) for key, each in value.items()}
    if isinstance(value, list):
        return [spoil(each, kept) for each in value]
    return value + EVIL if isinstance(value, str) else value


def spoil_file(path: str, kept: tuple[str, ...]) -> None:
    file = Path(path)
    file.write_text(json.dumps(spoil(json.loads(file.read_text()), kept)))


SPOILT: dict[str, tuple[str, ...]] = {
    "result.json": ("id",),
    "record.json": (),
    "handle.json": ("type", "run_id"),
    "attempt-0/exit/node-0000.json": (),
    "attempt-0/errors/rank-00000.json": (),
    "plan.json": ("run_id", "ranks", "launcher", "framework", "bind", "path"),
}
"""The files of a run's directory, and which of what they say has to be right for it to be read at all."""
LOOKS = (("list", "{}"), ("status", "{}"), ("logs", "{}"), ("wait", "--timeout", "0", "{}"), ("diff", "{}", "{own}"))


@pytest.fixture(scope="module")
def foreign(cli: Cli, run: str) -> Callable[[str], str]:
    """The run's directory as somebody else may have written it: `foreign("result.json")` has that file spoilt."""

    def make(name: str) -> str:
        directory = os.path.join(cli.root, name.replace("/", "-"), run)
        shutil.copytree(os.path.realpath(cli.path(run)), directory, symlinks=True)
        spoil_file(os.path.join(directory, name), SPOILT[name])
        if name == "attempt-0/exit/node-0000.json":  # what it says counts where there is no result yet
            os.unlink(os.path.join(directory, "result.json"))
        return directory

    return make


@pytest.mark.parametrize("name", SPOILT)
def test_a_run_of_somebody_elses(cli: Cli, run: str, foreign: Callable[[str], str], name: str) -> None:
    directory = foreign(name)
    for verb, *words in LOOKS:
        result = cli(verb, *(word.format(directory, own=run) for word in words))
        check(result.out, COLOURS if verb == "logs" else None)
        check(result.err)
        assert "Traceback" not in result.err, result.err
    for verb in ("status", "list"):
        result = cli(verb, directory, "-o", "json")
        check(result.out)
        assert not result.out or json.loads(result.out)
    with Terminal(cli, "status", directory, TERM="xterm") as terminal:
        terminal.end()
    check(terminal.shown.replace("\r\n", "\n"), OWN_COLOURS)


def test_a_run_that_is_followed(cli: Cli, run: str) -> None:
    out, err = json.loads(cli.read_project("said.json"))
    check(out, COLOURS)
    check(err)
    assert "why" in err


def test_json_says_what_was_said(cli: Cli, run: str) -> None:
    for words in (("list",), ("status", run), ("diff", run, run), ("logs", run)):
        result = cli.ok(*words, "-o", "json")
        check(result.out + result.err)
    assert cli.json("list")[0]["name"] == "said" + SAID


@pytest.mark.parametrize("verb", [["list"], ["status"], ["run", "--dry-run", "job.yml"], ["list", "-o", "json"]])
def test_at_a_terminal(cli: Cli, run: str, verb: list[str]) -> None:
    with Terminal(cli, *verb, TERM="xterm") as terminal:
        assert terminal.end() == 0
    check(terminal.shown.replace("\r\n", "\n"), OWN_COLOURS)
    assert ("\x1b[31mFAILED\x1b[0m" in terminal.shown) is (verb[0] in ("list", "status") and len(verb) == 1)


def test_a_run_that_is_followed_at_a_terminal(cli: Cli, run: str) -> None:
    with Terminal(cli, "run", "-q", "job.yml", TERM="xterm") as terminal:
        assert terminal.end() == 1
    assert "\x1b[31mFAILED\x1b[0m" in terminal.shown and "why" in terminal.shown
    check(terminal.shown.replace("\r\x1b[K", "").replace("\r\n", "\n"), OWN_COLOURS)


def test_a_dry_run(cli: Cli, run: str) -> None:
    """Nothing of the command is hidden, and its text is the same command in a shell."""
    cli.write("dry.yml", job(command="echo 'one'\necho \\$TWO" + SAID))
    for words in (("dry.yml",), ("job.yml",), ("job.yml", "--count", "2"), ("job.yml", "--set", "tags.x=a\x1b[2J")):
        result = cli.ok("run", "--dry-run", *words)
        check(result.out + result.err)
    assert "A=$'\\x1b[2J" in result.out
    line = next(line for line in cli.ok("run", "--dry-run", "dry.yml").lines if line.startswith("bash -c "))
    assert r"echo \'one\'\necho \\$TWO\x1b[2J" in line


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"command": "true", "comman" + EVIL: 1}),
        json.dumps({"command": "true", "distribution": {"type": EVIL}}),
        json.dumps({"command": "true", "resources": {"instance_count": EVIL}, "x" + EVIL: {}}),
        json.dumps({"command": "echo ${{inputs.%s}}" % EVIL}),
        json.dumps({"command": "true", "compute": "azureml:" + EVIL}),
        json.dumps({"command": "true", "environment": EVIL}),
        json.dumps({"command": "true", "code": EVIL}),
        json.dumps({"command": "true", "inputs": {"a": {"type": "uri_file", "path": "https://h/" + EVIL}}}),
        "command: true" + EVIL,
        "command: !!" + EVIL,
    ],
)
def test_a_job_that_is_refused(cli: Cli, text: str) -> None:
    cli.write("bad.yml", text)
    result = cli("run", "--dry-run", "bad.yml")
    check(result.out + result.err)
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    "words",
    [
        ("status", SAID),
        ("stat" + SAID,),
        ("run", SAID + ".yml"),
        ("run", "--set", SAID, "job.yml"),
        ("list", "--state", SAID),
        ("list", "-o", SAID),
        ("wait", "--timeout", SAID),
        ("prune", "--dry-run", "--older-than", SAID),
        ("prune", "--dry-run", "--keep", "0"),
    ],
)
def test_words_of_a_command_line(cli: Cli, run: str, words: tuple[str, ...]) -> None:
    result = cli(*words)
    check(result.out + result.err)


def test_configuration(tmp_path: Path) -> None:
    cli = Cli(str(tmp_path))
    cli.write(
        "worldsize.toml", '[compute.lab]\ntype = "local"\nsetup = [%s]\npython = %s\n' % ((json.dumps(EVIL),) * 2)
    )
    for words in (("show",), ("show", "--origin"), ("show", "-o", "json"), ("trust",)):
        result = cli("config", *words)
        check(result.out + result.err)
    cli.write("worldsize.toml", "[compute.lab]\n%s = 1\n" % json.dumps(EVIL))
    result = cli("config", "show")
    assert result.code == 2
    check(result.out + result.err)


def test_what_a_server_answers(tmp_path: Path) -> None:
    cli = Cli(str(tmp_path))
    cli.write("worldsize.toml", '[compute.lab]\ntype = "slurm"\n')
    row = [
        "node1",
        "drained",
        "main",
        "0/0/8/8",
        "16000",
        "0",
        "gpu:h100:4",
        "gpu:h100:0",
        "bad" + EVIL,
        "\n",
    ]
    cli.write("rows", "\x1f".join(row))
    for text in ('cat "%s/rows"' % cli.project, 'cat "%s/rows" >&2; exit 1' % cli.project):
        for name in ("sinfo", "squeue", "sacct", "sbatch"):
            os.chmod(cli.write("bin/" + name, "#!/bin/sh\n%s\n" % text), 0o755)
        path = "%s/bin:%s" % (cli.project, os.environ["PATH"])
        for words in (("nodes", "--all"), ("nodes",), ("nodes", "-o", "json"), ("run", "--dry-run", "--", "true")):
            more = ("--compute", "lab")
            cut = words.index("--") if "--" in words else len(words)
            result = cli(*words[:cut], *more, *words[cut:], PATH=path)
            check(result.out + result.err)
            assert result.out or result.err


def test_one_module_writes_what_is_shown() -> None:
    """A new verb cannot leave it out: nothing else of the command line prints, or touches the two streams."""
    found = []
    for path in sorted(Path(SOURCE, "worldsize", "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and writes(node) and path.name != "output.py":
                found.append("%s:%d" % (path.name, node.lineno))
    assert found == []


def writes(call: ast.Call) -> bool:
    """Whether it prints, writes to a stream by its name or hands one on, or writes to descriptors 1 or 2."""
    text = ast.unparse(call.func)
    handed = [ast.unparse(each) for each in (*call.args, *(keyword.value for keyword in call.keywords))]
    if text in ("print", "os.write"):
        return True
    if re.match(r"sys\.(__)?(stdout|stderr)(__)?\.", text):
        return text.split(".")[-1] not in ("flush", "isatty", "reconfigure")
    streams = [each for each in handed if re.fullmatch(r"sys\.(__)?(stdout|stderr)(__)?(\.buffer)?", each)]
    return bool(streams) and text not in ("state_text", "states_text")
