"""Examples that train for real, each in its own environment."""

from __future__ import annotations

import os
import re

import pytest
from driver import SOURCE, Cli

ROOT = os.path.dirname(SOURCE)
PATIENCE = 240.0


def needs(environment: str) -> pytest.MarkDecorator:
    """Skips what needs an environment that `make setup` has not built."""
    there = os.path.exists(os.path.join(ROOT, environment, "bin", "python"))
    return pytest.mark.skipif(not there, reason="no %s: make setup" % environment)


def example(name: str) -> str:
    return os.path.join(ROOT, "examples", name, "job.yml")


def trained(cli: Cli, *words: str) -> list[str]:
    """What each rank printed, once the run has succeeded."""
    result = cli("run", *words, timeout=PATIENCE)
    assert result.code == 0, result
    run = cli.latest()
    assert cli.status(run)["state"] == "SUCCEEDED"
    ranks = cli.status(run)["ranks"]
    return [cli.read(run, "attempt-0", "logs", "rank-%05d.log" % rank) for rank in range(ranks)]


def ranks(world: str) -> int:
    """The world size of `NxM`."""
    nodes, _, processes = world.partition("x")
    return int(nodes) * int(processes)


def accuracy(logs: list[str]) -> float:
    """Of the one rank that says it."""
    found = re.findall(r"^accuracy=(\d\.\d+)$", "".join(logs), re.MULTILINE)
    assert len(found) == 1, logs
    return float(found[0])


def trap(cli: Cli, *programs: str) -> str:
    """Put programs of these names first on PATH, which fail; the file that is there once one of them was called."""
    folder, called = (os.path.join(cli.root, name) for name in ("trap", "called"))
    os.mkdir(folder)
    for name in programs:
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write("#!/bin/sh\necho %s >>%s\nexit 1\n" % (name, called))
        os.chmod(path, 0o755)
    cli.environ["PATH"] = folder + os.pathsep + cli.environ["PATH"]
    return called
