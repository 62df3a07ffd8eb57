"""Runs whose `notify` command is told of their start, failure and end, and those whose command fails or hangs.

What it is told, in words: tests/unit/wings/notify/test_notify_message.py; how it is called: test_notify_caller.py.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from driver import Cli
from local_runs import LocalRun, LocalRuns, until

from worldsize.agent.posix import processes

UNTIL_NOTICED = "until grep -q notify.log ../attempt-0/events/node-0000.jsonl; do sleep 0.1; done"


@pytest.fixture
def start(tmp_path) -> Iterator[LocalRuns]:
    runs = LocalRuns(str(tmp_path / "home"))
    yield runs
    runs.destroy()


def told(run: LocalRun) -> list[dict[str, Any]]:
    """What the command has been told, once it has been told the end."""
    return read_told(os.path.join(run.paths.root, "told"))


def read_told(path: str, ends: int = 1) -> list[dict[str, Any]]:
    def found() -> list[dict[str, Any]]:
        if not os.path.exists(path):
            return []
        with open(path) as file:
            messages = [json.loads(line) for line in file if line.endswith("\n")]
        return messages if sum(message["event"] == "end" for message in messages) == ends else []

    return list(until(found))


def events(messages: list[dict[str, Any]]) -> list[tuple[str, str, str | None]]:
    return [(message["event"], message["state"], message["reason"]) for message in messages]


def test_start_and_end(start):
    run = start.sh("true", nodes=2, ranks=2, notify="cat >> ../told")
    assert run.ended()["state"] == "SUCCEEDED"
    first, last = told(run)
    assert events([first, last]) == [("start", "RUNNING", None), ("end", "SUCCEEDED", None)]
    assert (first["run"], first["nodes"], first["world_size"]) == (run.paths.run_id, 2, 4)
    assert last["time"] >= first["time"] and last["directory"] == run.paths.root


def test_a_failure_and_the_end_also_where_the_conductor_is_a_program(start):
    for runs in (start.sh, start.spawned):
        run = runs("exit $((RANK * 3))", nodes=2, notify="cat >> ../told")
        assert run.ended()["exit_code"] == 3
        messages = told(run)
        failed = [("failure", "FAILED", "EXIT_CODE"), ("end", "FAILED", "EXIT_CODE")]
        assert events(messages)[-2:] == failed and len(messages) <= 3, messages
        assert (messages[-2]["rank"], messages[-2]["node"], messages[-2]["exit_code"]) == (1, 1, 3)


def test_ends_that_no_agent_tells_of(start):
    """A setup that fails, an agent that is killed: the conductor tells."""
    run = start.sh("true", setup=("exit 5",), notify="cat >> ../told")
    assert run.ended()["reason"] == "ENVIRONMENT"
    assert events(told(run)) == [("failure", "FAILED", "ENVIRONMENT"), ("end", "FAILED", "ENVIRONMENT")]
    run = start.sh("echo up; sleep 600", nodes=2, notify="cat >> ../told")
    run.event(0, "ranks_started")
    os.kill(run.agents()[0], signal.SIGKILL)
    assert run.ended()["reason"] == "NODE_FAILURE"
    assert events(told(run))[-2:] == [("failure", "FAILED", "NODE_FAILURE"), ("end", "FAILED", "NODE_FAILURE")]


def test_a_command_that_hangs_keeps_no_run_and_is_still_told_the_end(start):
    run = start.sh("true", notify="cat >> ../told; echo $$ >> ../pid; until [ -e ../go ]; do sleep 0.05; done")
    assert run.ended()["state"] == "SUCCEEDED"
    open(os.path.join(run.paths.root, "go"), "w").close()
    assert events(told(run)) == [("start", "RUNNING", None), ("end", "SUCCEEDED", None)]
    with open(os.path.join(run.paths.root, "pid")) as file:
        pids = [int(line) for line in file]
    until(lambda: all(processes.start_time(pid) is None for pid in pids))


@pytest.mark.parametrize(
    ("command", "says"),
    [("nosuch", "127: bash: line 1: nosuch: command not found"), ("echo sorry; exit 3", "3: sorry")],
)
def test_a_command_that_fails_is_a_notice_that_names_the_key(cli: Cli, command: str, says: str) -> None:
    result = cli("run", "--set", "notify=%s" % command, "-w", "1x1", "--", "sh", "-c", UNTIL_NOTICED)
    assert result.code == 0, result
    wanted = "notice: notify: the command failed at start (exit code %s); correct `notify` in the job or in" % says
    assert result.err.count("notice: notify") == 1 and wanted in result.err, result
    data = json.loads(cli("status", "-o", "json").out)
    (notice,) = [each for each in data["notices"] if each["id"] == "notify"]
    assert notice["text"] in result.err


def test_the_configurations_command_and_the_jobs(cli: Cli, tmp_path) -> None:
    path = str(tmp_path / "told")
    cli.write("worldsize.toml", "notify = 'cat >> %s'\n" % path)
    assert cli("config", "trust", "worldsize.toml").code == 0
    assert cli("run", "--", "true").code == 0
    assert len(read_told(path)) == 2
    job = "command: exit 4\nnotify: ''\n"
    assert cli("run", cli.write("job.yml", job)).code == 4
    assert cli("run", cli.write("own.yml", "command: exit 4\nnotify: cat >> %s.own\n" % path)).code == 4
    assert len(read_told(path + ".own")) == 3 and len(read_told(path)) == 2


def test_each_element_of_an_array_is_told(cli: Cli, tmp_path) -> None:
    path = str(tmp_path / "told")
    job = "command: 'true'\ncount: 2\nnotify: cat >> %s\n" % path
    assert cli("run", cli.write("job.yml", job)).code == 0
    messages = read_told(path, ends=2)
    assert sorted(message["event"] for message in messages) == ["end", "end", "start", "start"]
    assert len({message["run"] for message in messages}) == 2


def test_secrets_are_in_no_message_nor_in_the_environment(cli: Cli, tmp_path) -> None:
    path = str(tmp_path / "told")
    script = "import os; raise ValueError('bad ' + os.environ['TOKEN'])"
    job = 'argv: [python, -c, "%s"]\nsecrets: [TOKEN]\nnotify: cat >> %s; env >> %s.env\n' % (script, path, path)
    cli.environ["TOKEN"] = "hunter2hunter2"
    assert cli("run", cli.write("job.yml", job)).code == 1
    messages = read_told(path)
    assert events(messages)[-1] == ("end", "FAILED", "EXIT_CODE") and "ValueError: bad" in messages[-1]["why"]
    for name in (path, path + ".env"):
        with open(name) as file:
            assert "hunter2" not in file.read(), name


def test_a_token_of_the_command_is_in_no_record(cli: Cli, tmp_path) -> None:
    path = str(tmp_path / "told")
    job = "command: 'true'\nnotify: API_TOKEN=hunter2hunter2 sh -c 'echo $API_TOKEN >> %s.env; cat >> %s'\n" % (
        path,
        path,
    )
    assert cli("run", cli.write("job.yml", job)).code == 0
    read_told(path)
    with open(path + ".env") as file:
        assert file.read() == 2 * "hunter2hunter2\n"
    run = cli("path").out.strip()
    for folder, _, names in os.walk(run):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                assert b"hunter2hunter2" not in file.read() or name == "agent.pyz", name
