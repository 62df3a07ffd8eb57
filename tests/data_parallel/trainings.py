"""A project with the training scripts, and what its runs leave."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from driver import Cli

SCRIPTS = os.path.join(os.path.dirname(__file__), "scripts")
PATIENCE = 240.0
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_KINDS = ("loss", "test", "accuracy", "lr", "sample", "weights")

Numbers = list[tuple[str, list[float]]]


class Trainings:
    """Runs scripts plain and on many ranks."""

    def __init__(self, cli: Cli) -> None:
        self.cli = cli
        os.makedirs(os.path.join(cli.project, "outputs"))

    def add(self, name: str) -> str:
        """A script of `scripts/` becomes the project's; its file's name."""
        with open(os.path.join(SCRIPTS, name + ".py")) as file:
            self.cli.write(name + ".py", file.read())
        return name + ".py"

    def plain(self, *words: str) -> str:
        """What a script prints by itself."""
        environ = {**self.cli.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, *words]
        done = subprocess.run(
            command, cwd=self.cli.project, env=environ, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def parallel(
        self, world: str, *words: str, mode: str = "split", code: int = 0, options: tuple[str, ...] = ()
    ) -> str:
        """The run's id."""
        asked = "--data-parallel=" + mode
        result = self.cli(
            "run", "-q", "-w", world, asked, *options, "--", "python", *words, timeout=PATIENCE, OMP_NUM_THREADS="1"
        )
        assert result.code == code, result
        return self.cli.latest()

    def log(self, run: str, rank: int = 0) -> str:
        return self.cli.read(run, "attempt-0", "logs", "rank-%05d.log" % rank)

    def reports(self, run: str) -> list[dict[str, int]]:
        """What each rank says that it has seen."""
        directory = self.cli.path(run, "attempt-0", "data-parallel")
        return [
            json.loads(self.cli.read(run, "attempt-0", "data-parallel", name)) for name in sorted(os.listdir(directory))
        ]


def numbers(text: str) -> Numbers:
    """The lines that tell of the training, in order."""
    lines = (line.split() for line in text.splitlines())
    return [
        (words[0], [float(number) for number in words[1:] if _NUMBER.fullmatch(number)])
        for words in lines
        if words and words[0] in _KINDS
    ]


def assert_near(found: Numbers, expected: Numbers, relative: float, kinds: tuple[str, ...] = _KINDS) -> None:
    assert [kind for kind, _ in found] == [kind for kind, _ in expected] and len(expected) > 2
    for (kind, ours), (_, theirs) in zip(found, expected, strict=True):
        if kind in kinds:
            assert ours == pytest.approx(theirs, rel=relative, abs=1e-300), kind
