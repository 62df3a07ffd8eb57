"""Mistakes: exit 2, words that name the place and the mend, no traceback, and nothing created."""

# ruff: noqa: E501  (one mistake a line)

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from driver import Cli
from in_process import InProcess

OK = "command: echo $X\n"


class Mistake(NamedTuple):
    """A job file (None: none), the words after `run job.yml`, and what the message has to say."""

    name: str
    text: str | bytes | None
    says: tuple[str, ...]
    words: tuple[str, ...] = ()


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += ["a%d: &a%d [%s]" % (i, i, ", ".join(["*a%d" % (i - 1)] * 10)) for i in range(1, 12)]
    return OK + "tags:\n" + "".join("  %s\n" % line for line in lines)


FILES = [
    Mistake("missing", None, ("job.yml", "no such job file")),
    Mistake("empty", "", ("job.yml", "empty", "command")),
    Mistake("only a comment", "# nothing\n", ("job.yml", "empty")),
    Mistake("binary", b"\x7fELF\x02\x01\x01\0\0\0\xff\xfe", ("job.yml",)),
    Mistake("NUL bytes", b"command: a\0b\n", ("job.yml", "binary")),
    Mistake("not UTF-8", b"command: x\ndescription: \xff\xfe\n", ("job.yml:2", "UTF-8")),
    Mistake("not YAML", "command: [unclosed\nx: y\n", ("job.yml:", "not YAML")),
    Mistake("tabs", "command: x\nresources:\n\tinstance_count: 2\n", ("job.yml:3", "tabs")),
    Mistake("a list", "- command: x\n", ("job.yml:1", "mapping")),
    Mistake("two documents", "command: x\n---\ncommand: y\n", ("job.yml:", "one job")),
    Mistake("a YAML bomb", bomb(), ("job.yml:", "aliases")),
    Mistake("an endless anchor", OK + "tags: &a\n  x: *a\n", ("job.yml:",)),
    Mistake("too deep", OK + "slurm: " + "[" * 500 + "]" * 500 + "\n", ("job.yml:2", "deep")),
    Mistake("python tags", "command: !!python/object/apply:os.system ['touch pwned']\n", ("job.yml:1", "tag")),
    Mistake("duplicate keys", "command: a\nname: x\ncommand: b\n", ("job.yml:3", "command", "line 1")),
    Mistake("unknown key", OK + "instance_count: 2\n", ("job.yml:2", "instance_count")),
    Mistake("nearly a key", OK + "resources:\n  instance_cout: 2\n", ("job.yml:3", "resources", "did you mean 'instance_count'")),
    Mistake("wrong type", OK + "resources: 2\n", ("job.yml:2", "resources", "mapping")),
    Mistake("text for a number", OK + "resources:\n  instance_count: two\n", ("job.yml:3", "resources.instance_count", "whole number")),
    Mistake("a quoted number", OK + "threads: '2'\n", ("job.yml:2", "without quotes")),
    Mistake("a number for text", "command: 7\n", ("job.yml:1", "command", "text")),
    Mistake("no command", "code: .\n", ("job.yml", "command", "missing")),
    Mistake("blank command", "command: '  '\n", ("job.yml:1", "command", "empty")),
    Mistake("zero instances", OK + "resources:\n  instance_count: 0\n", ("job.yml:3", "instance_count", "at least 1")),
    Mistake("negative processes", OK + "distribution:\n  type: pytorch\n  process_count_per_instance: -1\n", ("job.yml:4", "at least 1")),
    Mistake("absurd size", OK + "resources:\n  instance_count: 99999999999\n", ("job.yml:3", "at most")),
    Mistake("too many ranks", OK + "resources: {instance_count: 5000}\ndistribution: {type: pytorch, process_count_per_instance: 5000}\n", ("ranks",)),
    Mistake("unknown distribution", OK + "distribution: {type: pytorhc}\n", ("job.yml:2", "distribution.type", "pytorch")),
    Mistake("a pipeline", "type: pipeline\njobs: {}\n", ("pipeline", "command jobs")),
    Mistake("unresolved input", "command: echo ${{inputs.lr}}\n", ("job.yml:1", "inputs.lr")),
    Mistake("misspelt input", "command: echo ${{inputs.lrr}}\ninputs: {lr: 1}\n", ("job.yml:1", "did you mean 'lr'")),
    Mistake("unknown expression", "command: echo ${{parent.x}}\n", ("job.yml:1", "${{parent.x}}")),
    Mistake("unclosed expression", "command: echo ${{inputs.x\n", ("job.yml:1", "closing")),
    Mistake("script not found", "command: python train.py\ncode: .\n", ("job.yml:1", "train.py", "not found")),
    Mistake("code not found", OK + "code: ./src\n", ("job.yml:2", "src")),
    Mistake("code is a file", OK + "code: ./job.yml\n", ("job.yml:2", "not a directory")),
    Mistake("code elsewhere", OK + "code: https://example.com/repo\n", ("job.yml:2", "local")),
    Mistake("missing input", OK + "inputs:\n  d:\n    type: uri_folder\n    path: ./nowhere\n", ("job.yml:5", "inputs.d.path", "nowhere")),
    Mistake("a remote input", OK + "inputs:\n  d: {type: uri_file, path: 'azureml:data:1'}\n", ("job.yml:3", "azureml:data:1", "local path")),
    Mistake("unknown compute", OK + "compute: gpu-cluster\n", ("gpu-cluster", "job.yml:2", "local")),
    Mistake("a rank variable", OK + "environment_variables:\n  WORLD_SIZE: 16\n", ("job.yml:3", "WORLD_SIZE", "16", "1")),
    Mistake("a launcher's variable", OK + "environment_variables: {PMIX_RANK: 0}\n", ("job.yml:2", "PMIX_RANK", "unset", "no single value is right")),
    Mistake("a variable's expression", OK + "environment_variables:\n  A: x-${{inputs.a}}\n", ("job.yml:3", "environment_variables.A", "${{inputs.a}}")),
    Mistake("a rank variable by expression", OK + "inputs: {n: 5}\nenvironment_variables: {WORLD_SIZE: '${{inputs.n}}'}\n", ("job.yml:3", "WORLD_SIZE", "the job 5")),
    Mistake("a file for a folder", OK + "inputs:\n  d: {type: uri_folder, path: ./job.yml}\n", ("job.yml:3", "inputs.d.path", "is a file", "uri_file")),
    Mistake("a folder for a file", OK + "inputs:\n  d: {type: uri_file, path: .}\n", ("job.yml:3", "inputs.d.path", "is a directory", "uri_folder")),
    Mistake("no conda file", OK + "environment:\n  image: x\n  conda_file: ./conda.yml\n", ("job.yml:4", "environment.conda_file", "conda.yml")),
    Mistake("no build directory", OK + "environment: {build: {path: ./docker}}\n", ("job.yml:2", "environment.build.path", "docker")),
    Mistake("another rank's number", OK + "environment_variables: {RANK: 0}\n", ("RANK",), ("-w", "1x2")),
    Mistake("not a variable's name", OK + "environment_variables: {'A=B': 1}\n", ("job.yml:2", "environment_variables")),
    Mistake("a NUL in a value", OK + 'environment_variables: {A: "x\\0y"}\n', ("job.yml:2", "NUL")),
    Mistake("not an input's name", OK + "inputs: {'my-lr': 1}\n", ("job.yml:2", "inputs.my-lr")),
    Mistake("unknown service", OK + "services: {a: {type: shh}}\n", ("job.yml:2", "services.a.type", "did you mean 'ssh'")),
    Mistake("unknown identity", OK + "identity: {type: user_identiy}\n", ("job.yml:2", "identity.type", "did you mean 'user_identity'")),
    Mistake("a negative timeout", OK + "limits: {timeout: -5}\n", ("job.yml:2", "limits.timeout")),
    Mistake("share with all", OK + "share: world\n", ("job.yml:2", "share", "group")),
    Mistake("override without a value", OK, ("--set", "key=value"), ("--set", "inputs.lr")),
    Mistake("override of an unknown key", OK, ("--set", "comand", "did you mean 'command'"), ("--set", "comand=x")),
    Mistake("override of an unknown input", OK + "inputs: {lr: 1}\n", ("inputs.lrr", "lr"), ("--set", "inputs.lrr=1")),
    Mistake("override of a wrong type", OK, ("--set resources.instance_count", "whole number"), ("--set", "resources.instance_count=x")),
    Mistake("override through text", OK, ("command",), ("--set", "command.x=1")),
    Mistake("override with nothing", OK, ("--set",), ("--set", "=")),
    Mistake("a world of words", OK, ("-w", "2x4"), ("-w", "two")),
    Mistake("an override's expression", OK, ("--set command", "inputs.x"), ("--set", "command=${{inputs.x}}")),
    Mistake("an override's rank variable", OK, ("--set environment_variables.RANK",), ("--set", "environment_variables.RANK=3")),
    Mistake("an empty world", OK, ("-w", "no ranks"), ("-w", "0x4")),
    Mistake("a world without end", OK, ("-w",), ("-w", "999999x999999")),
    Mistake("a negative world", OK, ("-w",), ("-w=-1x2",)),
    Mistake("an unknown compute", OK, ("--compute", "nowhere", "local"), ("--compute", "nowhere")),
    Mistake("a file and a command", OK, ("both",), ("--", "echo")),
    Mistake("nothing after the dashes", OK, ("--",), ("--",)),
    Mistake("code beside a file", OK, ("--code",), ("--code", ".")),
    Mistake("two files", OK, ("one job file", "other.yml"), ("other.yml",)),
    Mistake("an unknown option", OK, ("--detatch", "--detach"), ("--detatch",)),
]  # fmt: skip


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return InProcess(str(tmp_path))


def refused(cli: Cli, *words: str, says: tuple[str, ...], **environ: str) -> None:
    before = tree(cli)
    result = cli(*words, **environ)
    assert result.code == 2, result
    assert result.out == ""
    assert "Traceback" not in result.err and "Error(" not in result.err, result.err
    assert result.err.startswith("worldsize: ") and len(result.err) < 4000
    for part in says:
        assert part in result.err, (part, result.err)
    assert not os.path.exists(cli.home), os.listdir(cli.home)
    assert tree(cli) == before


def tree(cli: Cli) -> list[str]:
    return sorted(os.path.join(folder, name) for folder, names, files in os.walk(cli.root) for name in names + files)


@pytest.mark.parametrize("mistake", FILES, ids=lambda mistake: mistake.name.replace(" ", "-"))
def test_job_files(cli: Cli, mistake: Mistake) -> None:
    if mistake.text is not None:
        with open(os.path.join(cli.project, "job.yml"), "wb") as file:
            file.write(mistake.text if isinstance(mistake.text, bytes) else mistake.text.encode())
    refused(cli, "run", "job.yml", *mistake.words, says=mistake.says)


@pytest.mark.parametrize("verb", ["submit", "run --dry-run", "run --detach"])
def test_other_ways_to_start_refuse_alike(cli: Cli, verb: str) -> None:
    cli.write("job.yml", OK + "instance_count: 2\n")
    refused(cli, *verb.split(), "job.yml", says=("job.yml:2", "instance_count"))


def test_every_problem_is_said_at_once(cli: Cli) -> None:
    text = "command: python train.py ${{inputs.a}}\ncode: .\ninputs:\n  a: {type: uri_folder, path: ./no}\n"
    cli.write("job.yml", text + "environment_variables: {WORLD_SIZE: 3}\n")
    refused(cli, "run", "job.yml", says=("3 problems", "train.py", "inputs.a.path", "WORLD_SIZE"))
    cli.write("job.yml", "comand: x\nresources: {instance_count: 0}\nlimits: {timeout: x}\n")
    refused(cli, "run", "job.yml", says=("job.yml:1", "job.yml:2", "job.yml:3"))


WORDS = [
    ("run train.py", ("script", "worldsize run -- python train.py")),
    ("run python train.py --lr 0.1", ("--", "worldsize run -- python train.py --lr 0.1")),
    ("run -w 2x2 python train.py", ("worldsize run -w 2x2 -- python train.py",)),
    ("train.py", ("worldsize run -- python train.py",)),
    ("job.yaml", ("worldsize run job.yaml",)),
    ("run missing", ("no such job file", "missing")),
    ("run missing.txt", ("no such job file", "missing.txt")),
    ("run -", ("no such job file", "-")),
    ("run ./missing", ("no such job file", "./missing")),
    ("run missing --dry-run", ("no such job file", "missing")),
    ("submit missing", ("no such job file", "missing")),
    ("run job", ("no such job file", "did you mean job.yaml?")),
    ("run jbo.yaml", ("no such job file", "did you mean job.yaml?")),
    ("run other.yaml", ("no such job file", "worldsize init")),
    ("run", ("nothing to run",)),
    ("run --", ("no command",)),
    ("rnu job.yml", ("did you mean run?",)),
    ("frobnicate", ("one of:", "run")),
    ("-w 2x2 run", ("before the verb", "worldsize run -w 2x2")),
    ("run -- python missing.py", ("missing.py", "not found")),
    ("run --code nowhere -- python train.py", ("--code: no such directory", "nowhere", "correct --code")),
    ("run --code train.py -- true", ("--code: ", "train.py is not a directory")),
    ("run -w", ("-w",)),
    ("list --stat X", ("did you mean --state?",)),
    ("list --state X", ("there is no state X", "RUNNING")),
    ("list -n -1", ("negative",)),
    ("list -o yaml", ("yaml", "json")),
    ("list extra", ("extra",)),
    ("status nothing", ("no run is named 'nothing'",)),
    ("status ../../etc", ("not a run directory",)),
    ("logs", ("there is no run yet",)),
    ("wait --timeout soon", ("soon",)),
    ("wait --timeout nan", ("nan",)),
    ("cancel", ("no run is named", "-y")),
    ("cancel -y", ("there is no run yet",)),
    ("rerun", ("there is no run yet",)),
    ("config", ("what",)),
    ("config hide", ("hide", "show")),
    ("completion tcsh", ("tcsh", "bash")),
    ("list -- x", ("no command after --",)),
    ("--frob", ("--frob",)),
]


@pytest.mark.parametrize(("words", "says"), WORDS, ids=[words.replace(" ", "_") for words, _ in WORDS])
def test_words(cli: Cli, words: str, says: tuple[str, ...]) -> None:
    cli.write("train.py", "")
    cli.write("job.yaml", OK)
    refused(cli, *words.split(), says=says)


CONFIGS = [
    ("not TOML", "[compute\n", ("worldsize.toml:1", "not TOML")),
    ("unknown key", 'hoem = "x"\n', ("worldsize.toml:1", "hoem", "home")),
    ("wrong type", "default_compute = 3\n", ("worldsize.toml:1", "default_compute")),
    ("unknown type of compute", '[compute.lab]\ntype = "slrum"\n', ("worldsize.toml:2", "slurm")),
    ("duplicate", 'home = "a"\nhome = "b"\n', ("worldsize.toml",)),
    ("not UTF-8", b'home = "\xff"\n', ("worldsize.toml:1", "UTF-8")),
    ("binary", b"\0\1\2", ("worldsize.toml",)),
    ("unknown default", '# here\ndefault_compute = "lab"\n', ("worldsize.toml:2: there is no compute 'lab'", "local")),
]


@pytest.mark.parametrize(
    ("text", "says"), [row[1:] for row in CONFIGS], ids=[row[0].replace(" ", "-") for row in CONFIGS]
)
def test_configuration(cli: Cli, text: str | bytes, says: tuple[str, ...]) -> None:
    with open(os.path.join(cli.project, "worldsize.toml"), "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    refused(cli, "run", "--", "true", says=says)


def test_an_unknown_compute_of_a_variable_names_the_variable(cli: Cli) -> None:
    refused(cli, "run", "--", "true", says=("WORLDSIZE_COMPUTE: there is no compute 'zz'",), WORLDSIZE_COMPUTE="zz")


def directory(path: str) -> None:
    os.unlink(path)
    os.mkdir(path)


def dangling(path: str) -> None:
    os.unlink(path)
    os.symlink("nowhere", path)


def circle(path: str) -> None:
    os.unlink(path)
    os.symlink(os.path.basename(path), path)


@pytest.mark.parametrize("spoil", [directory, dangling, circle], ids=lambda spoil: spoil.__name__)
def test_job_files_that_are_none(cli: Cli, spoil: Callable[[str], None]) -> None:
    spoil(cli.write("job.yml", OK))
    refused(cli, "run", "job.yml", says=("job.yml",))


def test_a_job_file_that_is_a_device(cli: Cli) -> None:
    refused(cli, "run", "/dev/zero", says=("/dev/zero",))
