"""Secrets are where their user put them, and nowhere else: the head node keeps commands and variables of tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from canaries import NAMED, SECRETS, Canaries
from driver import wait_for

from hpcpack.life import PATIENCE, Client

THE_JOB = "project/job.yml"


@pytest.mark.exhaustive(unless=["setup"])
@pytest.mark.parametrize("way", ["alone", "array", "setup"])
def test_a_run(client: Client, way: str) -> None:
    canaries = Canaries()
    more = {
        "alone": {},
        "array": {"count": 2},
        "setup": {"setup": ["true --token " + canaries("Setup"), 'echo "had: $EXPERIMENT"']},
    }[way]
    client.write("job.yml", json.dumps(canaries.job("1x1" if way == "array" else "2x1", **more)))
    environ = {NAMED: canaries.environ[NAMED]}
    told = client("run", "--dry-run", "job.yml", **environ)
    submitted = client("submit", "job.yml", **environ)
    run = submitted.out.strip()
    runs = [run + "_0", run + "_1"] if way == "array" else [run]
    wait_for(lambda: sum(map(client.ranks_up, runs)) == 2, PATIENCE)
    share = client.simulator.share
    during = canaries.in_files(share, but=(SECRETS, THE_JOB)) + canaries.in_processes()
    jobs = [job["Id"] for job in client.jobs() if run in job["Name"]]
    kept = [client.simulator.ask("GET", "/jobs/%s%s" % (job, more)) for job in jobs for more in ("", "/tasks")]
    assert run in str(kept)
    for each in runs:
        Path(client.path(each, "outputs", "go")).touch()
    assert client("wait", run, timeout=PATIENCE).code == 0, client("status", run)
    shown = told.out + told.err + submitted.out + submitted.err + str(kept) + client("status", run).out
    assert during + canaries.in_files(share, but=(THE_JOB,)) == []
    assert canaries.word not in shown
    files = [path for path in Path(client.root).rglob("*") if path.is_file()]
    assert not [path for path in files if client.simulator.password.encode() in path.read_bytes()]


def test_secrets_in_what_the_head_is_told(client: Client) -> None:
    """Found by review: what is shown of the requests, and kept for the group of a shared run, had them."""
    canaries = Canaries()
    properties = {
        "NotifyUrl": "https://anna:%s@h/x?token=%s" % (canaries("A"), canaries("B")),
        "ApiToken": canaries("C"),
    }
    hpcpack = {"project": "of " + canaries("Named"), "job_properties": properties}
    job = {"command": "true", "share": "group", "secrets": [NAMED], "hpcpack": hpcpack}
    client.write("job.yml", json.dumps(job))
    told = client("run", "--dry-run", "job.yml", **{NAMED: canaries.environ[NAMED]})
    client("submit", "job.yml", **{NAMED: canaries.environ[NAMED]})
    assert "ApiToken=***" in told.out and canaries.word not in told.out + told.err
    assert canaries.in_files(client.root, but=(THE_JOB,)) == []
    assert canaries.in_files(client.simulator.share, but=(THE_JOB, SECRETS)) == []
