"""Every verb about runs that exist: what it prints, as text and as JSON, and its exit code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
from driver import Cli, unfolded, wait_for

WAITING = ("sh", "-c", "touch outputs/up-$RANK; while ! test -e outputs/go; do sleep 0.05; done; echo gone on")
LINES = "for i in 1 2 3; do echo loss $i; done; echo only $RANK"


def waiting(cli: Cli, *words: str) -> str:
    run = cli.submit(*words, "--", *WAITING)
    wait_for(lambda: os.path.exists(cli.path(run, "outputs", "up-0")))
    return run


def go_on(cli: Cli, run: str) -> None:
    open(cli.path(run, "outputs", "go"), "w").close()


@pytest.fixture
def lines(cli: Cli) -> str:
    """A finished run of 2 × 2 ranks that printed a few lines."""
    return cli.run("-w", "2x2", "--", "sh", "-c", LINES)


def test_submit_prints_the_id_alone_and_returns(cli: Cli) -> None:
    run = waiting(cli)
    assert len(run.split("-")) == 3 and os.path.isdir(cli.path(run))
    wait_for(lambda: cli.status(run)["state"] == "RUNNING")
    go_on(cli, run)
    result = cli("wait", run)
    assert (result.code, result.out) == (0, "")
    assert "SUCCEEDED" in result.err


def test_list(cli: Cli) -> None:
    assert "no runs yet" in cli.ok("list").err
    assert cli.json("list") == []
    first = cli.run("--name", "first", "--", "true")
    second = cli.run("-w", "2x1", "--", "sh", "-c", "exit 3", code=3)
    rows = cli.json("list")
    assert [row["id"] for row in rows] == [second, first]
    keys = "id name state reason compute nodes ranks created created_at started started_at ended ended_at exit_code"
    keys += " experiment_name description tags"
    assert list(rows[0]) == keys.split()
    assert rows[0]["state"] == "FAILED" and rows[0]["exit_code"] == 3 and rows[0]["ranks"] == 2
    assert rows[1]["name"] == "first" and rows[1]["reason"] is None
    text = cli.ok("list").lines
    assert text[0].split() == ["RUN", "NAME", "STATE", "REASON", "COMPUTE", "SIZE", "AGE", "TOOK"]
    assert text[1].startswith(second) and "2x1" in text[1] and "EXIT_CODE" in text[1]
    assert [row["id"] for row in cli.json("list", "--state", "succeeded")] == [first]
    assert [row["id"] for row in cli.json("list", "-n", "1")] == [second]
    assert cli("list", "--state", "DONE").code == 2


@pytest.mark.exhaustive(unless=['{"type":'])
@pytest.mark.parametrize("content", ["", '{"type":', "[1]"])
def test_what_is_damaged_in_a_run_is_said(cli: Cli, content: str) -> None:
    """As a machine that lost its power leaves files: there, and empty."""
    run = cli.run("--", "true")
    for name, verbs in (("handle.json", ("status", "wait", "requeue", "exec")), ("record.json", ("diff", "status"))):
        whole = cli.read(run, name)
        with open(cli.path(run, name), "w") as file:
            file.write(content)
        for verb in verbs:
            result = cli(verb, run, *(["--", "true"] if verb == "exec" else []))
            assert "Traceback" not in result.err, (verb, result)
        if name == "handle.json":
            assert "damaged" in cli.ok("status", run).out
        else:
            told = cli("diff", run, run)
            assert told.code == 1 and "record.json" in told.err and "damaged" in told.err, told
        with open(cli.path(run, name), "w") as file:
            file.write(whole)


def test_list_bears_what_is_damaged(cli: Cli) -> None:
    good = cli.run("--", "true")
    emptied, broken, gone = (cli.run("--", "true") for _ in range(3))
    for name in os.listdir(cli.path(emptied)):
        path = cli.path(emptied, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    for name in ("plan.json", "result.json"):
        with open(cli.path(broken, name), "w") as file:
            file.write('{"version": 1, "nod')
    shutil.rmtree(cli.path(gone))
    states = {row["id"]: row["state"] for row in cli.json("list", "--all")}
    assert states == {good: "SUCCEEDED", emptied: "PREPARING", broken: "LOST"}
    assert cli.json("status", broken)["state"] == "LOST"
    for verb in ("status", "logs", "wait", "cancel"):
        result = cli(verb, broken)
        assert "Traceback" not in result.err and result.code in (0, 1, 2), (verb, result)
    assert cli("status", gone).code == 2


def test_status_of_a_success(cli: Cli, lines: str) -> None:
    status = cli.status(lines)
    assert status["state"] == "SUCCEEDED" and status["exit_code"] == 0 and status["failure"] is None
    assert status["directory"] == cli.path(lines)
    text = cli.ok("status").out
    assert text.startswith("%s  SUCCEEDED\n" % lines) and "2 nodes, 4 ranks on local" in text


def test_status_of_a_failure_is_one_screen(cli: Cli) -> None:
    script = (
        "import os, time; last = os.environ['RANK'] == '3'\n"
        "while last and len(os.listdir('outputs')) < 3: time.sleep(0.02)\n"
        "if last: {}['lr']\n"
        "print('waits'); open('outputs/' + os.environ['RANK'], 'w'); time.sleep(30)\n"
    )
    cli.write("train.py", script)
    run = cli.run("-w", "2x2", "--", "python", "train.py", code=1)
    failure = cli.status(run)["failure"]
    assert (failure["rank"], failure["node_rank"], failure["code"]) == (3, 1, 1)
    assert failure["exception"]["type"] == "KeyError"
    assert failure["exception"]["frames"][-1]["line"] == 3
    text = cli.ok("status").out
    for part in ("FAILED (EXIT_CODE)", "rank 3", "node 1", "KeyError: 'lr'", "train.py:3", "ranks 0-2", "waits"):
        assert part in text, text
    assert len(text.splitlines()) < 40


def test_status_while_it_runs(cli: Cli) -> None:
    began = time.time()
    run = waiting(cli)
    wait_for(lambda: cli.json("status")["started"])
    status = cli.json("status")
    assert status["exit_code"] is None
    assert began < status["started"] < time.time()
    assert "RUNNING" in cli.ok("status").out
    assert "no run is named" in cli("cancel", "--now").err
    assert "cancel %s" % run in cli.ok("cancel", "--now", "-y").err
    assert cli("wait").code == 130
    assert cli.status(run)["reason"] == "CANCELLED_BY_USER"


def test_logs_merge_and_fold(cli: Cli, lines: str) -> None:
    assert cli.ok("logs").lines[:3] == ["×4: loss 1", "×4: loss 2", "×4: loss 3"]
    assert set(cli.ok("logs").lines[3:]) == {"0:0: only 0", "0:1: only 1", "1:2: only 2", "1:3: only 3"}
    assert len(cli.ok("logs", "--fold", "off").lines) == 16
    assert cli.ok("logs", "--fold", "numbers").lines[3].startswith("×4: only")


def test_logs_of_some(cli: Cli, lines: str) -> None:
    assert cli.ok("logs", "--rank", "3", "--tail", "1").out == "1:3: only 3\n"
    assert cli.ok("logs", "--rank", "0,2-3", "--grep", "only").lines == ["0:0: only 0", "1:2: only 2", "1:3: only 3"]
    assert cli.ok("logs", "--node", "1", "--grep", "o.*y").lines == ["1:2: only 2", "1:3: only 3"]
    assert cli.ok("logs", "--rank", "1", "--raw").out == "loss 1\nloss 2\nloss 3\nonly 1\n"
    assert cli.ok("logs", "--tail", "0").out == ""
    assert cli.ok("logs", "-f", "--rank", "1", "--tail", "2").lines == ["0:1: loss 3", "0:1: only 1"]


def test_logs_as_json(cli: Cli, lines: str) -> None:
    rows = [json.loads(line) for line in cli.ok("logs", "-o", "json", "--node", "1", "--tail", "2").lines]
    assert rows == [
        {"rank": 2, "node": 1, "line": "loss 3"},
        {"rank": 2, "node": 1, "line": "only 2"},
        {"rank": 3, "node": 1, "line": "loss 3"},
        {"rank": 3, "node": 1, "line": "only 3"},
    ]
    long = cli.run("--", "sh", "-c", "head -c 200000 /dev/zero | tr '\\0' 'ü'; printf ' end'")
    (row,) = [json.loads(line) for line in cli.ok("logs", long, "-o", "json").lines]
    assert len(row["line"]) > 200_000 and row["line"].endswith(" end")


def test_logs_as_json_stream_while_it_runs(cli: Cli) -> None:
    run = cli.submit("--", "sh", "-c", "echo early; while ! test -e outputs/go; do sleep 0.05; done; echo late; exit 2")
    following = cli.start("logs", "-f", "-o", "json", run)
    assert following.stdout is not None
    assert json.loads(following.stdout.readline())["line"] == "early"
    go_on(cli, run)
    out, _ = following.communicate(timeout=20)
    assert json.loads(out)["line"] == "late" and following.returncode == 2


def test_logs_that_cannot_be(cli: Cli, lines: str) -> None:
    for words, said in (
        ("--rank 4", "ranks are 0-3"),
        ("--rank x", "'x' is not a rank"),
        ("--node 2", "nodes are 0-1"),
        ("--rank 0 --node 1", "node 1 has ranks 2,3"),
        ("--grep (", "not a regular expression"),
        ("--tail -1", "-1 is negative"),
        ("--raw --grep x", "cannot be combined"),
        ("--raw -o json", "cannot be combined"),
    ):
        result = cli("logs", *words.split())
        assert result.code == 2 and said in result.err, (words, result)


def test_wait(cli: Cli) -> None:
    run = waiting(cli, "-w", "1x1")
    began = time.monotonic()
    assert cli("wait", "--timeout", "0.2").code == 124
    assert time.monotonic() - began < 30
    wait_for(lambda: cli.status(run)["state"] == "RUNNING")
    cli.ok("cancel", run)
    result = cli("wait", run, "-o", "json")
    assert result.code == 130 and json.loads(result.out)["state"] == "CANCELLED"
    assert cli("wait", run).code == 130


def test_cancel_twice_and_what_has_ended(cli: Cli) -> None:
    run = waiting(cli, "-w", "2x1")
    both = [cli.start("cancel", run), cli.start("cancel", run)]
    assert [process.wait(timeout=20) for process in both] == [0, 0]
    for process in both:
        process.communicate()
    assert cli("wait", run).code == 130
    again = cli.ok("cancel", run)
    assert "is already CANCELLED" in again.err
    done = cli.run("--", "true")
    assert "is already SUCCEEDED" in cli.ok("cancel", done).err
    assert cli.status(done)["state"] == "SUCCEEDED"


def test_rerun_takes_the_snapshot_although_the_source_changed(cli: Cli) -> None:
    script = cli.write("train.py", "print('version', 1)\n")
    first = cli.run("-w", "1x2", "--name", "mine", "--", "python", "train.py")
    with open(script, "w") as file:
        file.write("print('version', 2)\n")
    again = cli.ok("rerun")
    assert unfolded(again.lines) == ["version 1"] * 2
    second = cli.latest()
    assert second != first and cli.status(second)["name"] == "mine"
    os.unlink(script)
    assert unfolded(cli.ok("rerun", first, "-w", "2x2").lines) == ["version 1"] * 4
    assert cli.ok("rerun", second, "--dry-run").code == 0
    cli.ok("prune", "--keep", "1")
    assert unfolded(cli.ok("rerun").lines) == ["version 1"] * 4


def test_rerun_stays_on_the_compute_that_was_chosen(cli: Cli) -> None:
    cli.write("worldsize.toml", '[compute.other]\ntype = "local"\n')
    cli.run("--compute", "other", "--", "true")
    cli.ok("rerun")
    assert cli.status()["compute"] == "other"
    cli.ok("rerun", "--compute", "local")
    assert cli.status()["compute"] == "local"


def test_rerun_of_a_job_file_with_inputs(cli: Cli) -> None:
    cli.write("data/x.txt", "content")
    text = "command: cat ${{inputs.data}}/x.txt; echo ' ' ${{inputs.lr}}\n"
    cli.write("jobs/job.yml", text + "inputs:\n  lr: 0.1\n  data:\n    type: uri_folder\n    path: ../data\n")
    assert cli.ok("run", "jobs/job.yml").out == "0:0: content  0.1\n"
    assert cli.ok("rerun", cli.latest(), "--set", "inputs.lr=2", cwd=cli.root).out == "0:0: content  2\n"


def test_code_changed_after_submit_is_not_seen(cli: Cli) -> None:
    cli.write("late.py", "print('old')\n")
    command = "touch outputs/up-$RANK; while ! test -e outputs/go; do sleep 0.05; done; python late.py"
    run = cli.submit("--", "sh", "-c", command)
    wait_for(lambda: os.path.exists(cli.path(run, "outputs", "up-0")))
    cli.write("late.py", "print('new')\n")
    go_on(cli, run)
    assert cli("wait", run).code == 0
    assert cli.ok("logs", run).out == "0:0: old\n"


def test_status_tells_threads_and_binding(cli: Cli) -> None:
    cli.write("job.yml", "command: test $OMP_NUM_THREADS = 3\nthreads: 3\n")
    cli.run("job.yml")
    status = cli.status()
    assert (status["threads"], status["binding"]) == (3, "none")
    assert "3 threads per rank; CPUs not bound" in cli.ok("status").lines
    assert cli("run", "--", "sh", "-c", "test $OMP_NUM_THREADS = 5", OMP_NUM_THREADS="5").code == 0
    assert cli.status()["threads"] == 5
    cli.run("--", "sh", "-c", "test $OMP_NUM_THREADS = %d" % len(os.sched_getaffinity(0)))
    assert cli.status()["threads"] == len(os.sched_getaffinity(0))
    with open(cli.path(cli.latest(), "record.json"), "w") as file:
        file.write("[]")
    assert cli.ok("status").code == 0


def test_runs_can_be_looked_at_from_a_directory_that_is_gone(cli: Cli) -> None:
    run = cli.run("--", "echo", "hello")
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" -m worldsize "$@"'

    def from_nowhere(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["sh", "-c", script, sys.executable, *words]
        return subprocess.run(command, cwd=cli.project, env=cli.environ, capture_output=True, text=True, check=False)

    for words in (["list"], ["status"], ["wait"], ["logs", run], ["diff", run], ["config", "show"], ["cancel", "-y"]):
        result = from_nowhere(*words)
        assert result.returncode == 0, (words, result)
    assert run in from_nowhere("list").stdout
    for words in (["rerun"], ["run", "--", "true"]):
        result = from_nowhere(*words)
        assert result.returncode == 2 and "the current directory" in result.stderr, (words, result)


def test_diff_tells_no_secret(cli: Cli) -> None:
    text = "command: echo\ninputs: {api_key: %s}\nenvironment_variables: {API_KEY: %s}\n"
    cli.write("job.yml", text % ("hunter1", "hunter1"))
    old = cli.run("job.yml")
    cli.write("job.yml", text % ("hunter2", "hunter2"))
    cli.run("job.yml")
    result = cli.ok("diff", old, "-o", "json")
    assert "hunter" not in result.out + cli.ok("diff", old).out
    assert json.loads(result.out)["job"] == {}, "no record holds anything of either"
    old = cli.run("--", "echo", "--api-key", "hunter1")
    cli.run("--", "printf", "--api-key", "hunter2")
    assert cli.json("diff", old)["job"]["argv"] == [[each, "--api-key", "***"] for each in ("echo", "printf")]


def test_diff_of_a_run_without_code(cli: Cli) -> None:
    cli.write("bare.yml", "command: echo\n")
    bare = cli.run("bare.yml")
    other = cli.run("--", "echo")
    assert cli.json("diff", bare, other)["code"] == {"added": ["bare.yml"], "removed": [], "changed": []}
    assert cli.json("diff", other, bare)["code"] == {"added": [], "removed": ["bare.yml"], "changed": []}
    assert cli.json("diff", bare, bare)["code"] == {"added": [], "removed": [], "changed": []}
    refused = cli("diff")
    assert refused.code == 2 and "worldsize diff %s %s" % (bare, other) in refused.err


def test_diff(cli: Cli) -> None:
    cli.write("a.py", "1\n")
    cli.write("job.yml", "command: python a.py\ninputs: {lr: 0.1}\n")
    cli.write("gone.py", "")
    cli.write("job.yml", "command: python a.py\ncode: .\ninputs: {lr: 0.1}\n")
    old = cli.run("job.yml")
    same = cli.run("job.yml")
    assert cli.ok("diff", old, same).out == "no difference in job, code or environment\n"
    cli.write("a.py", "2\n")
    cli.write("new.py", "")
    os.unlink(os.path.join(cli.project, "gone.py"))
    assert cli.ok("run", "job.yml", "--set", "inputs.lr=0.5", "-w", "1x2", COLOR="red").code == 0
    found = cli.json("diff", old)
    assert found["job"]["inputs.lr"] == [0.1, 0.5]
    assert found["environment"]["variable.COLOR"] == [None, "red"]
    assert found["code"] == {"added": ["new.py"], "removed": ["gone.py"], "changed": ["a.py"]}
    text = cli.ok("diff", old).lines
    assert "job inputs.lr: 0.1 → 0.5" in text and "code ~ a.py" in text and "code + new.py" in text
    assert cli("diff").code == 2


def test_prune(cli: Cli) -> None:
    oldest = cli.run("--", "true")
    failed = cli.run("--", "false", code=1)
    newest = cli.run("--", "true")
    running = waiting(cli)
    assert cli("prune").code == 2
    would = cli.json("prune", "--keep", "2", "--dry-run")
    assert [row["id"] for row in would] == [failed, oldest] and would[0]["bytes"] > 0
    assert len(cli.json("list")) == 4
    assert [row["id"] for row in cli.json("prune", "--state", "failed")] == [failed]
    assert not os.path.exists(cli.path(failed))
    assert cli.json("prune", "--older-than", "1h") == []
    assert "removed 2 run(s)" in cli.ok("prune", "--older-than", "0s").err
    assert [row["id"] for row in cli.json("list")] == [running]
    assert not os.path.exists(cli.path(newest))
    cli.ok("cancel", running, "--now")
    assert cli("wait", running).code == 130
    for words in (["--older-than", "3 days"], ["--keep", "-1"], ["--state", "old"], ["--keep", "x"]):
        assert cli("prune", *words).code == 2


def test_a_run_by_its_unique_beginning_from_anywhere(cli: Cli) -> None:
    run = cli.run("--", "echo", "me")
    other = cli.run("--", "echo", "other")
    tail = run.rpartition("-")[2]
    nowhere = os.path.join(cli.root, "elsewhere")
    os.mkdir(nowhere)
    for name in (run, tail, tail[:5], cli.path(run)):
        assert cli.ok("logs", name, cwd=nowhere).out == "0:0: me\n"
    elsewhere = cli("logs", cwd=nowhere)
    assert elsewhere.code == 2 and "no run was started from this directory" in elsewhere.err and other in elsewhere.err
    assert cli.ok("logs").out == "0:0: other\n"
    ambiguous = cli("logs", "20", cwd=nowhere)
    assert ambiguous.code == 2 and run in ambiguous.err and other in ambiguous.err
    missing = cli("status", "zzzzzz")
    assert missing.code == 2 and other in missing.err
    assert cli("status", cwd=nowhere, WORLDSIZE_HOME=nowhere).code == 2


def test_config_show(cli: Cli) -> None:
    lines = ['type = "hpcpack"', 'node_group = "gpu"', 'job_properties = { Password = "hunter2" }']
    path = cli.write("worldsize.toml", "\n".join(["[compute.lab]", *lines, ""]))
    settings = cli.json("config", "show")
    assert settings["compute.lab.node_group"]["value"] == "gpu"
    assert settings["compute.lab.node_group"]["origin"].startswith(path)
    assert settings["home"] == {"value": cli.home, "origin": "WORLDSIZE_HOME"}
    assert settings["default_compute"]["origin"] == "default"
    text = cli.ok("config", "show", "--origin")
    assert path in text.out and "hunter2" not in text.out
    assert "compute.lab.type = hpcpack\n" in cli.ok("config", "show").out


def test_schema_is_json_schema(cli: Cli) -> None:
    schema = json.loads(cli.ok("schema").out)
    assert "command" in schema["properties"] and "inputs" in schema["properties"]


def test_every_verb_explains_itself_with_examples(cli: Cli) -> None:
    from worldsize.cli.main import VERBS

    overview = cli.ok("--help").out
    for verb, entry in VERBS.items():
        text = cli.ok(verb, "--help").out
        assert "examples:" in text and "worldsize %s" % verb in text, verb
        assert verb in overview and entry.help in overview
    assert cli.ok().out == overview
    assert cli.ok("help", "run").out == cli.ok("run", "--help").out


def test_version(cli: Cli) -> None:
    from worldsize.version import VERSION

    assert cli.ok("--version").out == cli.ok("version").out == "worldsize %s\n" % VERSION


def test_a_reader_that_wants_one_line(cli: Cli, lines: str) -> None:
    for words in ("list --all", "logs", "status", "--help", "run --help", "schema", "run --dry-run -- true"):
        script = '"%s" -m worldsize %s 2>err | head -1; echo ${PIPESTATUS[0]}' % (sys.executable, words)
        shell = subprocess.run(
            ["bash", "-c", script], cwd=cli.project, env=cli.environ, capture_output=True, text=True, check=False
        )
        assert shell.stdout.split("\n")[-2] in ("0", "141"), (words, shell)
        assert cli.read_project("err") == "", words


@pytest.mark.exhaustive(
    unless=[
        "run -- echo x->&-",
        "run -- echo x-2>&-",
        "run -- echo x-<&-",
        "run -- echo x->&- 2>&- <&-",
        "run -- echo x->/dev/full",
        "run -- echo x-2>/dev/full",
        "list->&- 2>&- <&-",
        "status zzz->&- 2>&- <&-",
        "run --nonsense->&- 2>&- <&-",
    ]
)
@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&-", ">&- 2>&- <&-", ">/dev/full", "2>/dev/full"])
@pytest.mark.parametrize("words", ["list", "run -- echo x", "status zzz", "run --nonsense"])
def test_streams_that_are_closed_or_full(cli: Cli, redirection: str, words: str) -> None:
    script = '"%s" -m worldsize %s %s; echo code $?' % (sys.executable, words, redirection)
    shell = subprocess.run(
        ["bash", "-c", script], cwd=cli.project, env=cli.environ, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in shell.stdout + shell.stderr
    assert int(shell.stdout.split()[-1]) in ((2,) if "zzz" in words or "nonsense" in words else (0, 1)), shell
    wait_for(lambda: not cli.processes())


@pytest.mark.parametrize("words", ["run", "submit", "run --detach"])
def test_a_run_whose_id_or_output_cannot_be_written_is_said_to_go_on(cli: Cli, words: str) -> None:
    until = "until test -e %s/go; do echo more; sleep 0.02; done" % cli.project
    script = '"%s" -m worldsize %s -- sh -c "%s" > /dev/full' % (sys.executable, words, until)
    shell = subprocess.run(
        ["bash", "-c", script], cwd=cli.project, env=cli.environ, capture_output=True, text=True, check=False
    )
    run = cli.latest()
    cli.write("go", "")
    assert shell.returncode == 1, shell
    assert "%s continues" % run in shell.stderr and "cannot write the output: No space left" in shell.stderr, shell
    cli.ok("wait", run)


def test_a_terminal_of_another_alphabet(cli: Cli) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    result = cli.ok("run", "-w", "2x1", "--fold", "off", "--", "echo", "größe", **ascii_only)
    assert unfolded(result.lines) == ["gr\\xf6\\xdfe"] * 2
    assert cli.ok("logs", **ascii_only).out == "\\xd72: gr\\xf6\\xdfe\n"
