"""Runs in container images, by a stand-in for Apptainer: the real one cannot be had here."""

from __future__ import annotations

import json
import os

import pytest
from driver import Cli
from runtimes import APPTAINER, install

SHOW = "echo $APPTAINER_CONTAINER $RANK ${VIRTUAL_ENV:-none}${LD_LIBRARY_PATH:-none}"


@pytest.fixture
def image(cli: Cli) -> str:
    """With the stand-in on PATH, and variables of the host that mean nothing in an image."""
    bin_ = install(os.path.join(cli.root, "bin"), "apptainer", APPTAINER)
    cli.environ["PATH"] = bin_ + os.pathsep + cli.environ["PATH"]
    cli.environ.update(SAID=os.path.join(cli.root, "said"), LD_LIBRARY_PATH="/host/lib", VIRTUAL_ENV="/host/env")
    return cli.write("image.sif", "an image")


def job(cli: Cli, image: str, command: str = SHOW, **keys: object) -> None:
    cli.write("job.yml", json.dumps({"command": command, "environment": {"image": image}, **keys}, indent=1))


def said(cli: Cli) -> list[list[str]]:
    with open(cli.environ["SAID"]) as file:
        return [eval(line) for line in file]


def test_ranks_run_in_the_image_and_see_what_they_need(cli: Cli, image: str) -> None:
    cli.write("set/a.txt", "a")
    command = SHOW + "; cat ${{inputs.data}}/a.txt; echo; touch ${{outputs.out}}/$RANK outputs/$RANK"
    job(cli, image, command, inputs={"data": {"path": "set"}}, outputs={"out": {"type": "uri_folder"}})
    result = cli("run", "job.yml", "-w", "2x1", "--fold", "off")
    assert result.code == 0, result
    assert sorted(result.lines) == ["0:0: %s 0 nonenone" % image, "0:0: a", "1:1: %s 1 nonenone" % image, "1:1: a"]
    run = cli.latest()
    assert sorted(os.listdir(cli.path(run, "outputs"))) == ["0", "1", "out"]
    words = said(cli)[0]
    root = os.path.realpath(cli.path(run))
    assert ["--bind", root] == words[words.index(root) - 1 : words.index(root) + 1]
    assert "apptainer exec --bind" in cli.ok("run", "job.yml", "--dry-run").out


def test_exit_codes_and_exceptions_come_out(cli: Cli, image: str) -> None:
    job(cli, image, "python3 -c 'raise ValueError(5)'")
    result = cli("run", "job.yml", "-w", "2x1")
    assert result.code == 1 and 'ValueError: "5"' in result.err.replace("ValueError: 5", 'ValueError: "5"')
    job(cli, "./image.sif", "exit 7")
    assert cli("run", "job.yml").code == 7


def test_an_array_and_copies_on_the_node(cli: Cli, image: str) -> None:
    cli.write("worldsize.toml", '[compute.local]\nlocal_dir = "$DISK"\n')
    os.mkdir(os.path.join(cli.root, "disk"))
    cli.environ["DISK"] = os.path.join(cli.root, "disk")
    cli.write("x", "content")
    inputs = {"x": {"type": "uri_file", "path": "x", "mode": "download"}, "lr": 1}
    job(cli, image, "cat ${{inputs.x}}; echo; echo ${{inputs.lr}} $APPTAINER_CONTAINER", inputs=inputs)
    assert cli("run", "job.yml", "--matrix", "lr=1,2").code == 0
    texts = sorted(line.partition(": ")[2] for line in cli.ok("logs").lines)
    assert texts == ["1 " + image, "2 " + image, "content", "content"]


def test_a_name_is_fetched_once_and_told(cli: Cli, image: str) -> None:
    job(cli, "pytorch/pytorch:2.3")
    first, second = cli("run", "job.yml"), cli("run", "job.yml")
    assert first.code == second.code == 0 and "fetching the container image pytorch/pytorch:2.3" in first.err
    assert "fetching" not in second.err and first.lines == second.lines and ".sif 0" in first.out
    job(cli, "no-such:1")
    refused = cli("run", "job.yml")
    assert refused.code == 2 and "no such image: docker://no-such:1" in refused.err and "job.yml:4" in refused.err


def test_without_a_runtime_it_is_refused_and_how_to_go_on(cli: Cli) -> None:
    job(cli, "pytorch/pytorch:2.3", "echo ran")
    refused = cli("run", "job.yml")
    assert refused.code == 2 and "needs Apptainer or Singularity, or Pyxis on Slurm: none is here" in refused.err
    assert 'container = "apptainer"' in refused.err
    cli.write("worldsize.toml", '[compute.local]\ncontainer = "none"\n')
    result = cli("run", "job.yml")
    assert result.lines == ["0:0: ran"] and "is not used: the compute has no containers" in result.err


def test_what_cannot_be_in_an_image(cli: Cli, image: str) -> None:
    job(cli, image, distribution={"type": "pytorch", "launcher": "torchrun"})
    assert "torchrun would run outside the image" in cli("run", "job.yml").err
    job(cli, "./none.sif")
    assert "no such image: %s/none.sif" % cli.project in cli("run", "job.yml").err
