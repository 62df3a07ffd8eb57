"""init: what it writes runs as it is, and nothing that was there is lost."""

from __future__ import annotations

import os
import pty
import sys

import pytest
from driver import Cli, wait_for

from worldsize.jobspec.reading.job_file import load_job

TRAIN = """
import argparse, os
import torch.distributed
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-05)
parser.add_argument("--batch-size", "-b", type=int, default=64)
parser.add_argument("--name", default="two words")
parser.add_argument("--verbose", action="store_true")
parser.add_argument("--data", required=True)
parser.add_argument("config")
"""
BARE = os.path.dirname(sys.executable)
"""A PATH without Slurm's programs."""

RUNS = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr', default=1e-05)\n"


def job_of(cli: Cli, name: str = "job.yml"):
    loaded = load_job(os.path.join(cli.project, name))
    assert not loaded.warnings
    return loaded.job


def fake(cli: Cli, name: str, output: str) -> str:
    """A PATH on which a program of that name prints that."""
    folder = os.path.join(cli.root, "bin")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w") as file:
        file.write("#!/bin/sh\ncat <<'END'\n%s\nEND\n" % output)
    os.chmod(os.path.join(folder, name), 0o755)
    return "%s:%s" % (folder, os.environ["PATH"])


def test_a_script_with_options_runs_as_found(cli: Cli) -> None:
    cli.write("train.py", RUNS + "print('lr', parser.parse_args().lr)\n")
    cli.write("helper.py", "x = 1\n")
    cli.write("test_train.py", "")
    result = cli.ok("init", "--yes", PATH=BARE)
    assert "wrote  job.yml" in result.err and "now: worldsize run job.yml" in result.err
    job = job_of(cli)
    assert job.command.endswith("train.py --lr ${{inputs.lr}}") and job.inputs == {"lr": 1e-05}
    assert cli.read_project("job.yml").startswith("# yaml-language-server: $schema=worldsize.schema.json\n")
    assert cli.ok("run", "job.yml").out == "0:0: lr 1e-05\n"
    assert cli.ok("config", "show").out.count("compute.") == 1


def test_a_distributed_script_gets_two_processes(cli: Cli) -> None:
    cli.write("src/main.py", "import torch.distributed\n")
    cli.write("src/zz.py", "")
    cli.ok("init", "--yes")
    job = job_of(cli)
    assert job.distribution is not None and job.distribution.type == "pytorch"
    assert job.distribution.process_count_per_instance == 2  # type: ignore[union-attr]
    assert job.code == os.path.join(cli.project, "src") and job.command.endswith(" main.py")


def test_what_a_script_requires_is_said(cli: Cli) -> None:
    cli.write("train.py", TRAIN)
    result = cli.ok("init", "-y")
    assert "train.py requires --data, config" in result.err
    assert job_of(cli).inputs == {"lr": 1e-05, "batch_size": 64, "name": "two words"}


def test_defaults_of_any_text_survive(cli: Cli) -> None:
    texts = ["two  words", 'it\'s "quoted" $HOME `x` ${{inputs.b}}', "-dash", "a\nb", "*", "", "ü", "true", "1.0"]
    lines = ["import argparse", "parser = argparse.ArgumentParser()"]
    lines += ["parser.add_argument('--x%d', default=%r)" % pair for pair in enumerate(texts)]
    lines += ["print(list(vars(parser.parse_args()).values()) == %r)" % texts]
    cli.write("train.py", "\n".join(lines))
    cli.ok("init", "-y", PATH=BARE)
    assert job_of(cli).inputs["x0"] == "two  words"
    assert cli.ok("run", "job.yml").out == "0:0: True\n"
    assert "False" in cli.ok("run", "job.yml", "--set", "inputs.x0=other").out


def test_a_plain_script_on_several_gpus_is_warned_of(cli: Cli) -> None:
    cli.write("train.py", "print(1)\n")
    path = fake(cli, "nvidia-smi", "GPU 0: A\nGPU 1: A\nGPU 2: A")
    own = "/proc/driver/nvidia/gpus"
    gpus = len(os.listdir(own)) if os.path.isdir(own) else 3
    result = cli.ok("init", "-y", PATH=path)
    assert gpus == 1 or "does not seem to use torch.distributed" in result.err
    assert job_of(cli).distribution.process_count_per_instance == gpus  # type: ignore[union-attr]


def test_a_directory_without_scripts(cli: Cli) -> None:
    os.mkdir(os.path.join(cli.project, "new project"))
    assert "no Python script was found" in cli.ok("init", "new project", "--yes").err
    assert "rank 1 of 2" in cli.ok("run", "new project/job.yml", "-w", "1x2").out


def test_slurm_is_found(cli: Cli) -> None:
    kinds = [("cpu", "(null)"), ("gpu*", "gpu:a100:4(S:0-1)"), ("gpu*", "gpu:2"), ("odd name", "x")]
    rows = [(name, "up", "1:00", "1", "1", gres, "") for name, gres in kinds]
    path = fake(cli, "sinfo", "\n".join(map("\x1f".join, rows)))
    cli.write("train.py", "")
    cli.ok("init", "-y", PATH=path)
    settings = cli.json("config", "show")
    assert settings["compute.cluster.type"]["value"] == "slurm"
    assert settings["compute.cluster.partition"]["value"] == "gpu"
    assert settings["compute.cluster.gpus_per_node"]["value"] == 4
    assert cli.ok("run", "job.yml").code == 0


def test_without_slurm_its_table_is_a_comment(cli: Cli) -> None:
    cli.ok("init", "-y", PATH=BARE)
    assert "# [compute.cluster]" in cli.read_project("worldsize.toml")


def test_nothing_is_overwritten(cli: Cli) -> None:
    cli.write("job.yml", "mine")
    result = cli("init", "--yes")
    assert result.code == 2 and "job.yml" in result.err and "--force" in result.err
    assert os.listdir(cli.project) == ["job.yml"] and cli.read_project("job.yml") == "mine"
    os.unlink(os.path.join(cli.project, "job.yml"))
    cli.write("worldsize.toml", "# mine\n")
    assert "kept   worldsize.toml" in cli.ok("init", "--yes").err
    assert cli.read_project("worldsize.toml") == "# mine\n"
    cli.ok("init", "--yes", "--force")
    assert cli.read_project("worldsize.toml") != "# mine\n" and job_of(cli).command


def test_odd_places(cli: Cli) -> None:
    assert cli("init", "nowhere", "-y").code == 2
    cli.write('it\'s a "dir" $(x) ü/my train.py', "print('ran')\n")
    cli.ok("init", 'it\'s a "dir" $(x) ü', "-y")
    assert cli.ok("run", 'it\'s a "dir" $(x) ü/job.yml').out == "0:0: ran\n"
    cli.write("broken/train.py", "def (:\n\0")
    cli.ok("init", "broken", "-y")


def test_questions_at_a_terminal(cli: Cli) -> None:
    """Wrong answers are asked again; Enter takes the default."""
    cli.write("train.py", TRAIN)
    cli.write("other.py", "print('other', __import__('sys').argv[1:])\n")
    answers = ["nosuch.py", "", "zero", "2", "", "moon", "local", "", "my data"]
    code, shown = at_terminal(cli, ["init"], answers)
    assert code == 0, shown
    for part in ("script [train.py]:", "there is no nosuch.py", "a whole number", "one of: local", "--data"):
        assert part in shown, shown
    job = job_of(cli)
    assert job.resources.instance_count == 2 and job.inputs["data"] == "my data"
    assert '"$WORLDSIZE_INPUT_DATA"' in job.command


ALONE = """
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
"""
"""A training of one process."""


@pytest.mark.parametrize(("answer", "way"), [("", "split"), ("yes", "split"), ("no", None)])
def test_a_script_that_each_rank_would_train_on_its_own(cli: Cli, answer: str, way: str | None) -> None:
    cli.write("train.py", ALONE)
    code, shown = at_terminal(
        cli, ["init"], ["", "1", "2", "", "perhaps", answer] if way else ["", "1", "2", "", answer]
    )
    assert code == 0 and "train.py does not distribute itself; one training on all ranks" in shown, shown
    assert job_of(cli).data_parallel == way
    assert ("\n# data_parallel: split" in cli.read_project("job.yml")) is (way is None)


def test_without_a_terminal_the_way_out_is_a_comment(cli: Cli) -> None:
    cli.write("train.py", ALONE)
    path = fake(cli, "nvidia-smi", "GPU 0: A\nGPU 1: A")
    cli.ok("init", "-y", PATH=path)
    text, ranks = cli.read_project("job.yml"), job_of(cli).distribution.process_count_per_instance  # type: ignore[union-attr]
    assert job_of(cli).data_parallel is None and ("\n# data_parallel: split" in text) is (ranks > 1)


def test_one_rank_needs_no_question(cli: Cli) -> None:
    cli.write("train.py", ALONE)
    code, shown = at_terminal(cli, ["init"], ["", "1", "1", ""])
    assert code == 0 and "distribute itself" not in shown and "data_parallel" not in cli.read_project("job.yml")


def test_leaving_the_questions_writes_nothing(cli: Cli) -> None:
    code, shown = at_terminal(cli, ["init"], ["\x04"])
    assert code == 130 and "Traceback" not in shown
    code, shown = at_terminal(cli, ["init"], ["\x03"])
    assert code == 130 and "Traceback" not in shown
    assert os.listdir(cli.project) == []


def at_terminal(cli: Cli, words: list[str], answers: list[str]) -> tuple[int, str]:
    """The exit code and the screen of a command at a terminal at which somebody types."""
    pid, screen = pty.fork()
    if pid == 0:
        os.chdir(cli.project)
        os.execve(sys.executable, [sys.executable, "-m", "worldsize", *words], cli.environ)
    shown = b""
    for answer in answers:
        asked = shown.count(b": ")
        while shown.count(b": ") <= asked or not shown.endswith(b": "):
            shown += os.read(screen, 4096)
        os.write(screen, (answer if answer in "\x03\x04" and answer else answer + "\n").encode())
    try:
        while data := os.read(screen, 4096):
            shown += data
    except OSError:
        pass  # the other side of the terminal is closed
    status = os.waitpid(pid, 0)[1]
    os.close(screen)
    wait_for(lambda: not cli.processes())
    return os.waitstatus_to_exitcode(status), shown.decode(errors="replace")
