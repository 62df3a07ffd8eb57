"""What an agent takes for a command in the run's directory, and how it starts one: this is protocol."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from driver import wait_for

from worldsize.agent.posix.processes import HELPER_OF
from worldsize.common.atomic_files import access_of
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.node_commands.agent.command_watcher import poll_node_commands, start_command, trouble_log

PROGRAM = "import os, sys; print(sys.argv[1:], os.environ['OF_RANK'], os.environ['%s'], flush=True)\n" % HELPER_OF


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A run's, with one command, `good`."""
    made = RunPaths(str(tmp_path / "run"))
    os.makedirs(os.path.join(made.errands, "good"))
    for directory in (made.root, made.errands, os.path.join(made.errands, "good")):
        os.chmod(directory, 0o700)
    return made


def names(paths: RunPaths) -> set[str]:
    return poll_node_commands(paths, access_of(paths.root))


def test_drafts_links_and_what_others_can_write_to_are_no_commands(paths: RunPaths, tmp_path: Path) -> None:
    for name in (".draft", "open"):
        os.mkdir(os.path.join(paths.errands, name))
    os.chmod(os.path.join(paths.errands, "open"), 0o770)
    os.symlink(os.path.join(paths.errands, "good"), os.path.join(paths.errands, "link"))
    os.symlink(str(tmp_path), os.path.join(paths.errands, "way-out"))
    assert names(paths) == {"good"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what belongs to others")
def test_what_belongs_to_somebody_else_is_no_command(paths: RunPaths) -> None:
    os.chown(os.path.join(paths.errands, "good"), 65534, 65534)
    assert names(paths) == set()


def test_a_run_that_others_have_taken_over_has_no_commands(paths: RunPaths) -> None:
    access = access_of(paths.root)
    os.chmod(paths.root, 0o770)
    assert poll_node_commands(paths, access) == set()


def write_order(paths: RunPaths, text: str) -> str:
    directory = os.path.join(paths.errands, "good")
    (Path(directory) / "order.json").write_text(text)
    (Path(directory) / "visit.py").write_text(PROGRAM)
    return directory


def test_the_program_is_started_with_directory_node_and_agent(paths: RunPaths) -> None:
    directory = write_order(paths, json.dumps({"nodes": [1, 3]}))
    assert start_command(directory, 3, {"OF_RANK": "x"})
    log = Path(trouble_log(directory, 3))
    wait_for(lambda: log.read_text().endswith("\n"))
    agent = str(os.getpid())
    assert log.read_text() == "%s x %s\n" % ([directory, "3", agent], agent), "it is the agent's helper, and no rank's"
    assert start_command(directory, 2, {}), "it is for other nodes"
    assert not os.path.exists(trouble_log(directory, 2))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"nodes": 3}', "[" * 100_000, "null"])
def test_an_order_that_says_nothing_is_looked_at_again(paths: RunPaths, text: str) -> None:
    assert not start_command(write_order(paths, text), 0, {})


def test_an_order_is_a_file_of_a_sensible_size(paths: RunPaths) -> None:
    """A pipe would be waited for, and a hole of a terabyte read, by the agent."""
    order = os.path.join(write_order(paths, ""), "order.json")
    os.truncate(order, 1 << 40)
    assert not start_command(os.path.dirname(order), 0, {})
    os.unlink(order)
    os.mkfifo(order)
    assert not start_command(os.path.dirname(order), 0, {})
    os.unlink(order)
    assert not start_command(os.path.dirname(order), 0, {})
