"""Secrets are where their user put them, and nowhere else: on virtual nodes, during a run and after it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from canaries import NAMED, SECRETS, Canaries
from driver import Cli, wait_for


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(str(tmp_path))


@pytest.fixture
def canaries() -> Canaries:
    return Canaries()


def begun(cli: Cli, run: str, ranks: int) -> bool:
    return len(list(Path(cli.path(run, "outputs")).glob("up-*"))) == ranks


PATIENCE = 60
"""Seconds in which ranks begin, under torchrun too, on a busy machine."""

WAIT = "touch outputs/up-$RANK; until test -e outputs/go; do sleep 0.05; done"
LOOKS = (("status",), ("status", "-o", "json"), ("list",), ("list", "-o", "json"), ("logs",), ("config", "show"))
THE_JOB = "project/job.yml"
PASSWORD_PLACE = "Password"


@pytest.mark.exhaustive(unless=["alone", "shared", "mpi", "setup"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"share": "group"},
        {"distribution": {"type": "pytorch", "launcher": "torchrun", "process_count_per_instance": 1}},
        {"distribution": {"type": "mpi", "process_count_per_instance": 1}},
        {"setup": True},
    ],
    ids=["alone", "shared", "torchrun", "mpi", "setup"],
)
def test_a_run(cli: Cli, canaries: Canaries, more: dict[str, object]) -> None:
    if more.get("setup"):
        more = {"setup": ["export SETUP_TOKEN=" + canaries("Setup"), 'echo "had: $EXPERIMENT"']}
    cli.write("job.yml", json.dumps(canaries.job(**more)))
    told = cli("run", "--dry-run", "job.yml", **canaries.environ)
    submitted = cli("submit", "job.yml", **canaries.environ)
    shown = told.out + told.err + submitted.out + submitted.err
    run = submitted.out.strip()
    wait_for(lambda: begun(cli, run, 2), PATIENCE)
    root = os.path.realpath(cli.path(run))
    assert os.stat(os.path.join(root, SECRETS)).st_mode & 0o777 == 0o600
    during = canaries.in_files(cli.root, but=(SECRETS, THE_JOB)) + canaries.in_processes()
    result = cli("exec", run, "--", "sh", "-c", "echo ${%s} $HF_TOKEN | tr C c" % NAMED)
    assert result.lines[0].endswith(" ".join((canaries("Named"), canaries("Variable1"))).replace("C", "c"))
    Path(root, "outputs", "go").touch()
    assert cli("wait", run).code == 0, cli.read(run, "attempt-0", "logs", "rank-00000.log")
    for words in (*LOOKS, ("diff", run, run)):
        result = cli(*words)
        shown += result.out + result.err
    assert during == []
    assert not os.path.exists(os.path.join(root, SECRETS))
    assert canaries.in_files(cli.root, but=(THE_JOB,)) == []
    assert canaries.word not in shown


def test_words_of_a_step_and_of_a_setup_that_fails(cli: Cli, canaries: Canaries) -> None:
    """Found by review: both were kept after the run as they had been written, if nothing looked like a secret."""
    cli.environ.update({NAMED: canaries("Named")})
    cli.write("step.sh", "#!/bin/bash\n#SBATCH --ntasks=1\nsrun true $EXPERIMENT\nsrun true x-$EXPERIMENT\n")
    cli.ok("run", "step.sh", "--set", "secrets=[%s]" % NAMED)
    steps = Path(cli.path(cli.latest(), "attempt-0", "steps"))
    records = [json.loads(each.read_text()) for each in sorted(steps.glob("step-*.json"))]
    assert [record["command"] for record in records] == [["true", "***"], ["true", "x-***"]]
    word = canaries("Setup")
    job = {
        "command": "true",
        "setup": ["false %s" % word],
        "environment_variables": {"HF_TOKEN": word},
        "share": "group",
    }
    cli.write("code/job.yml", json.dumps({**job, "code": None}))
    failed = cli("run", "code/job.yml")
    assert failed.code == 1 and "false ***" in failed.err and canaries.word not in failed.out + failed.err
    assert canaries.in_files(cli.root, but=("project/code/job.yml",)) == []


def test_a_secret_in_an_exception_is_in_what_its_rank_wrote_alone(cli: Cli, canaries: Canaries) -> None:
    """Found by review: it was in the events of each node, and in the message that told the nodes to end."""
    cli.environ.update({NAMED: canaries("Named")})
    raising = "import os; os.environ['RANK'] == '1' and exec('raise ValueError(os.environ[\"%s\"])')" % NAMED
    job = {"argv": [sys.executable, "-c", raising], "resources": {"instance_count": 2}, "secrets": [NAMED]}
    cli.write("job.yml", json.dumps(job))
    failed = cli("run", "-q", "job.yml")
    assert failed.code == 1 and "ValueError: ***" in failed.err
    run = cli.latest()
    kept = canaries.in_files(cli.path(run), but=("attempt-0/logs/rank-00001.log", "attempt-0/errors/rank-00001.json"))
    assert kept == []
    assert "ValueError: ***" in cli.read(run, "attempt-0", "events", "node-0000.jsonl")


TELLS = """#!/bin/sh
test "$1" = exec || env > "$SAID/${0##*/}"
test "$1" != pull || echo image > "$2"
"""


def test_programs_that_are_started_before_the_run(cli: Cli, canaries: Canaries) -> None:
    """Found by review: what `secrets:` names was in the environment of git and of Apptainer."""
    for name in ("git", "apptainer"):
        os.chmod(cli.write("bin/" + name, TELLS), 0o700)
    subprocess.run(["git", "init", "-q"], cwd=cli.project, check=True)
    said = os.path.join(cli.root, "said")
    os.mkdir(said)
    cli.environ.update(PATH=os.path.join(cli.project, "bin") + os.pathsep + cli.environ["PATH"], SAID=said)
    cli.environ.update({NAMED: canaries("Named"), "APPTAINER_DOCKER_PASSWORD": "its own"})
    job = {"command": "true", "code": ".", "environment": {"image": "docker://debian"}}
    cli.write("job.yml", json.dumps({**job, "secrets": [NAMED, "APPTAINER_DOCKER_PASSWORD"]}))
    cli("run", "job.yml")
    found = {name: Path(said, name).read_text() for name in ("git", "apptainer")}
    assert "APPTAINER_DOCKER_PASSWORD=its own" in found["apptainer"] and canaries.word not in "".join(found.values())


SCRIPT = """
from worldsize import command, submit
run = submit(command(command="until test -e outputs/go; do sleep 0.05; done", setup=["touch outputs/up", "env"]))
print(run.id, flush=True)
"""


def test_a_password_of_who_calls_from_python(cli: Cli, canaries: Canaries) -> None:
    """Found by review: only the command line took it out of what it starts."""
    environ = {**cli.environ, **canaries.environ}
    argv = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(argv, cwd=cli.project, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    run = done.stdout.strip()
    wait_for(lambda: os.path.exists(cli.path(run, "outputs", "up")))
    word = canaries(PASSWORD_PLACE)
    found = [line for line in canaries.in_processes() if word in line]
    Path(cli.path(run, "outputs", "go")).touch()
    assert cli("wait", run).code == 0, cli("status", run)
    assert found == [] and word not in "".join(canaries.in_files(cli.root))


def test_a_group_reads_no_environment(cli: Cli) -> None:
    """Found by review: a run that is shared told the group all variables of whoever started it."""
    cli.write("job.yml", json.dumps({"command": "true", "share": "group", "setup": ["true"]}))
    run = cli.run("job.yml")
    assert "environment" not in json.loads(cli.read(run, "record.json"))
    cli.write("job.yml", json.dumps({"command": "true", "resources": {"instance_count": 2}, "share": "group"}))
    run = cli.run("job.yml")
    assert os.stat(cli.path(run, "attempt-0", "rendezvous.json")).st_mode & 0o777 == 0o600


def test_a_secret_that_is_missing(cli: Cli, canaries: Canaries) -> None:
    cli.write("job.yml", json.dumps(canaries.job()))
    refused = cli("run", "job.yml")
    assert refused.code == 2 and "secrets: EXPERIMENT is not set here" in refused.err


def test_rerun_reads_secrets_anew(cli: Cli) -> None:
    cli.write("job.yml", json.dumps({
        "command": "echo $EXPERIMENT $HF_TOKEN $MAX_TOKENS $KEY_FILE",
        "secrets": [NAMED],
        "environment_variables": {"HF_TOKEN": "first-1A", "MAX_TOKENS": "100", "KEY_FILE": "~/.ssh/key"},
    }))  # fmt: skip
    run = cli.ok("submit", "job.yml", EXPERIMENT="first-2B").out.strip()
    cli.ok("wait", run)
    assert cli.ok("logs", run, "--raw").out == "first-2B first-1A 100 ~/.ssh/key\n"
    refused = cli("rerun", run)
    assert refused.code == 2 and "HF_TOKEN is not set here" in refused.err and "EXPERIMENT is not" in refused.err
    again = cli.ok("rerun", run, EXPERIMENT="second-2", HF_TOKEN="second-1")
    assert "second-2 second-1 100 ~/.ssh/key" in again.out


def test_rerun_of_a_command_that_had_a_secret(cli: Cli) -> None:
    run = cli.run("-q", "--", "echo", "--api-key", "Canary1")
    refused = cli("rerun", run)
    assert refused.code == 2 and "holds *** where the earlier run had a secret" in refused.err
    assert cli.ok("rerun", run, "--set", "argv=[echo, again]").out.endswith("again\n")


@pytest.mark.exhaustive(unless=["matrix"])
@pytest.mark.parametrize("more", [{"count": 2}, {"matrix": True}], ids=["count", "matrix"])
def test_an_array(cli: Cli, canaries: Canaries, more: dict[str, object]) -> None:
    if "matrix" in more:
        keys = [canaries("Matrix1"), canaries("Matrix2")]
        more = {"matrix": {"api_key": keys, "mode": ["of-" + keys[1], canaries("Named")]}, "at_once": 4}
    job = canaries.job("1x1", share="group")
    job["inputs"]["mode"] = "a"
    cli.write("job.yml", json.dumps({**job, **more}))
    told = cli("run", "--dry-run", "job.yml", **canaries.environ)
    submitted = cli("submit", "job.yml", **canaries.environ)
    run = submitted.out.strip()
    elements = ["%s_%d" % (run, number) for number in range(4 if "matrix" in more else 2)]
    wait_for(lambda: all(begun(cli, element, 1) for element in elements), PATIENCE)
    during = canaries.in_files(cli.root, but=(SECRETS, THE_JOB)) + canaries.in_processes()
    for element in elements:
        Path(cli.path(element, "outputs", "go")).touch()
    assert cli("wait", run).code == 0, cli("status", run)
    assert during + canaries.in_files(cli.root, but=(THE_JOB,)) == []
    looks = [cli(*words) for words in (("status", run), ("list", "--elements"), ("status", run, "-o", "json"))]
    assert canaries.word not in "".join(result.out + result.err for result in (told, submitted, *looks))


def test_words_that_were_typed(cli: Cli, canaries: Canaries) -> None:
    """Found by review: what stood on the command line for a moment was the conductor's, which anybody can read, for as
    long as the run ran."""
    words = ("--set", "environment_variables.HF_TOKEN=" + canaries("Typed"), "--", "sh", "-c", WAIT, canaries("Word"))
    run = cli.ok("submit", "-w", "2x1", *words).out.strip()
    wait_for(lambda: begun(cli, run, 2), PATIENCE)
    found = canaries.in_processes()
    titles = [words for words in cli.processes().values() if words.startswith("worldsize " + run)]
    Path(cli.path(run, "outputs", "go")).touch()
    assert cli("wait", run).code == 0
    assert found == [] and len(titles) == 3
    assert canaries("Typed") not in "".join(canaries.in_files(cli.root))


@contextmanager
def heard() -> Iterator[list[bytes]]:
    """What goes over this machine's loopback."""
    packets: list[bytes] = []
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        tap.bind(("lo", 0))
        tap.setblocking(False)
        yield packets
        with suppress(BlockingIOError):
            while True:
                packets.append(tap.recv(1 << 17))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hears what goes over the loopback")
def test_a_search(cli: Cli, canaries: Canaries) -> None:
    """Its trials leave records, a table and the best configuration, whose nodes meet by tokens of their own."""
    job = canaries.job()
    up, go = os.path.join(cli.project, "up"), os.path.join(cli.project, "go")
    job["environment_variables"].update(UP=up, GO=go)
    job["command"] = (
        "touch $UP-$RANK; until test -e $GO; do sleep 0.05; done; "
        'test -n "$EXPERIMENT" -a -n "$HF_TOKEN" && echo m=1 && echo m=1; true' + canaries.said()
    )
    job["autotune"] = {"config": "conf.json", "metric": "m", "reports": 2, "search": {"a": [1, 2]}}
    cli.write("code/conf.json", "{}")
    cli.write("job.yml", json.dumps({**job, "code": "code"}))
    run = cli.ok("submit", "job.yml", **canaries.environ).out.strip()
    wait_for(lambda: all(os.path.exists("%s-%d" % (up, rank)) for rank in range(2)))
    during = canaries.in_files(cli.root, but=(SECRETS, THE_JOB)) + canaries.in_processes()
    tokens = {json.loads(path.read_text())["token"] for path in Path(cli.path(run)).rglob("rendezvous.json")}
    assert len(tokens) == 1 and all(len(token) >= 32 for token in tokens)
    with heard() as packets:
        Path(go).touch()
        assert cli("wait", run).code == 0, cli("status", run)
    tokens |= {json.loads(path.read_text())["token"] for path in Path(cli.path(run)).rglob("rendezvous.json")}
    said = b"".join(packets)
    assert len(tokens) == 2 and not [token for token in tokens if token.encode() in said]
    assert cli.status(run)["state"] == "SUCCEEDED" and cli.read(run, "outputs", "trials.csv").count(",measured") == 2
    assert during + canaries.in_files(cli.root, but=(THE_JOB,)) == []


def test_another_computes_runs_inside_the_code(cli: Cli, canaries: Canaries, tmp_path: Path) -> None:
    """Found by review: they were copied with the code, with the secrets of runs that went on, for a group to read."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    cli.write(
        "worldsize.toml",
        '[compute.one]\ntype = "local"\nruns_dir = "runs"\nenvs_dir = "envs"\n'
        '[compute.two]\ntype = "local"\nruns_dir = "%s"\n' % elsewhere,
    )
    cli.write("envs/mine.txt", "x")
    job = {"command": "touch outputs/up-$RANK; until test -e outputs/go; do sleep 0.05; done", "secrets": [NAMED]}
    cli.write("one.yml", json.dumps({**job, "compute": "one"}))
    cli.write("two.yml", json.dumps({"command": "true", "compute": "two", "code": ".", "share": "group"}))
    first = cli.ok("submit", "one.yml", **canaries.environ).out.strip()
    wait_for(lambda: begun(cli, first, 1), PATIENCE)
    second = cli.run("-q", "two.yml")
    Path(cli.path(first, "outputs", "go")).touch()
    assert cli("wait", first).code == 0
    copied = os.listdir(cli.path(second, "code"))
    assert "one.yml" in copied and not {"runs", "envs"}.intersection(copied)
    assert canaries.in_files(cli.root, str(elsewhere)) == []
