"""How a job, job.yml, is started and comes to its end.

Each of these returns once it has ended: the run that is asked about, None for the latest.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
from collections.abc import Iterator

from driver import Cli, heard

PATIENCE = 240.0


def run_to_its_end(cli: Cli) -> None:
    """Run it; it has to fail."""
    result = cli("run", "-q", "job.yml", timeout=PATIENCE)
    assert result.code != 0, result


def cancel_when_ready(cli: Cli) -> None:
    """Cancel it once a rank has printed `ready`."""
    with cli.start("run", "job.yml") as process:
        heard(process.stdout, "ready")
        cli.ok("cancel", cli.latest())
        process.communicate(timeout=PATIENCE)


def kill_agent_when_ready(cli: Cli) -> None:
    """Kill the agent of node 1 once a rank has printed `ready`."""
    with cli.start("run", "job.yml") as process:
        heard(process.stdout, "ready")
        started = next(event for event in cli.events(cli.latest(), 1) if event["event"] == "agent_started")
        os.kill(started["pid"], signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


@contextlib.contextmanager
def run_until_left(cli: Cli, code: int) -> Iterator[str]:
    """Submit a run that ends with `code` once the context is left; give its id."""
    path = os.path.join(tempfile.mkdtemp(dir=cli.root), "left")
    try:
        yield cli.submit("--", "sh", "-c", 'until [ -e "$0" ]; do sleep 0.05; done; exit "$1"', path, str(code))
    finally:
        with open(path, "w"):
            pass


def start_after_a_failure(cli: Cli) -> None:
    """Submit it to start after a run that fails."""
    with run_until_left(cli, 1) as first:
        later = cli.submit("--after", first, "job.yml")
    assert cli("wait", later, timeout=PATIENCE).code != 0


def start_without_patience(cli: Cli) -> None:
    """Start it with a millisecond, not minutes, for its nodes to join: until it is node 1 that notices first."""
    for _ in range(30):
        with run_until_left(cli, 0) as first:
            later = cli.submit("--after", first, "job.yml")
            path = cli.path(later, "plan.json")
            with open(path) as file:
                plan = json.load(file)
            with open(path, "w") as file:
                json.dump({**plan, "rendezvous_timeout": 0.001}, file)
        assert cli("wait", later, timeout=PATIENCE).code != 0
        if cli.status(later)["message"].startswith("node 1 "):
            break


def search(cli: Cli) -> str:
    """Run its search; return the trial that was left out."""
    cli.ok("run", "-q", "job.yml", timeout=PATIENCE)
    elements = cli.status()["elements"]
    return next(each["id"] for each in elements if each["reason"] == "LEFT_OUT")
