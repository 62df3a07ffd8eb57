"""Builds with the real tools, killed at random moments: none leaves an environment that counts and is incomplete."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest
from driver import Cli
from wheels import Links

MOMENTS = 20


@pytest.mark.exhaustive
@pytest.mark.timeout(400)
def test_killed_at_twenty_random_moments(cli: Cli, channel: Path, links: Links) -> None:
    links.wheel("demo", "1.0", {"demo/__init__.py": "", **{"demo/m%d.py" % n: "x = %d\n" % n for n in range(300)}})
    lines = "".join("  - '%s'\n" % line for line in (*links.lines, "demo"))
    cli.write(
        "environment.yml",
        "name: mine\nchannels: ['file://%s']\ndependencies:\n- beta\n- native\n- pip:\n%s" % (channel, lines),
    )
    whole = cli.ok("env", "build", "environment.yml").out.strip()
    expected = _content(whole)
    cli.ok("env", "remove", "mine")
    began = time.monotonic()
    cli.ok("env", "build", "environment.yml")
    took = min(time.monotonic() - began, 4.0)
    cli.ok("env", "remove", "mine")
    chance = random.Random(5)
    for _ in range(MOMENTS):
        with cli.start("env", "build", "environment.yml") as builder:
            time.sleep(chance.uniform(0.1, took * 1.1))
            builder.kill()
        if cli.json("env", "show", "environment.yml")["ready"]:
            _check(whole, expected, cli)
            cli.ok("env", "remove", "mine")
    assert cli.ok("env", "build", "environment.yml").out.strip() == whole
    _check(whole, expected, cli)
    cli.ok("env", "gc")
    assert [row["state"] for row in cli.json("env", "list")] == ["ready"]


def _content(prefix: str) -> set[str]:
    found = {str(path.relative_to(prefix)) for path in Path(prefix).rglob("*") if "__pycache__" not in path.parts}
    return {name for name in found if not name.startswith("worldsize/")}


def _check(prefix: str, expected: set[str], cli: Cli) -> None:
    assert _content(prefix) == expected
    assert cli("env", "show", "mine", "--verify").code == 0
    program = "import beta, demo.m299, shared.util; print(demo.m299.x)"
    done = subprocess.run([prefix + "/bin/python", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "299\n"
