"""`stage:` as a user sees it; and what is said where a compute's nodes reach no network."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from driver import Cli, unfolded
from webserver import Site, serve


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        site.files["/x.txt"] = b"staged"
        yield site


def job(cli: Cli, command: str, **keys: object) -> None:
    cli.write("job.yml", json.dumps({"command": command, "code": ".", **keys}, indent=1))


def test_ranks_find_what_is_staged(cli: Cli, site: Site) -> None:
    job(
        cli,
        "cat $WORLDSIZE_DATA/set/x.txt; echo; echo $MINE; touch $WORLDSIZE_DATA/set/x.txt",
        stage={"data": {"set/x.txt": site.url + "/x.txt"}},
        environment_variables={"MINE": "own"},
    )
    result = cli("run", "job.yml", "-w", "2x1")
    assert (unfolded(result.lines), site.statuses()) == (["own", "own", "staged", "staged"], [200])
    assert cli.ok("logs").lines == ["×2: staged", "×2: own"]
    run = cli.latest()
    record = json.loads(cli.read(run, "record.json"))
    assert record["stage"]["data/set/x.txt"]["uri"] == site.url + "/x.txt"
    assert unfolded(cli("rerun", run).lines) == ["own", "own", "staged", "staged"]
    assert cli("run", "job.yml", "--count", "2").code == 0
    assert sorted(line.partition(": ")[2] for line in cli.ok("logs").lines) == ["own", "own", "staged", "staged"]


def test_what_cannot_be_staged_leaves_no_run(cli: Cli, site: Site) -> None:
    job(cli, "true", stage={"data": {"x": site.url + "/nothing"}})
    result = cli("run", "job.yml")
    assert result.code == 2 and "job.yml:4: stage: %s/nothing: 404" % site.url in result.err
    assert not os.path.exists(os.path.join(cli.home, "runs"))


def test_the_jobs_own_variables_win(cli: Cli, site: Site) -> None:
    job(
        cli,
        "echo $WORLDSIZE_DATA $HF_HUB_OFFLINE $TRANSFORMERS_OFFLINE",
        stage={"data": {"x.txt": site.url + "/x.txt"}},
        environment_variables={"WORLDSIZE_DATA": "mine", "TRANSFORMERS_OFFLINE": "0"},
    )
    cli.write("worldsize.toml", "[compute.local]\noffline = true\n")
    assert cli("run", "job.yml").lines == ["0:0: mine 1 0"]


SCRIPT = """\
import data
from transformers import AutoModel

model = AutoModel.from_pretrained("gpt2")
"""


def test_an_offline_compute_tells_what_would_fail(cli: Cli, site: Site) -> None:
    cli.write("train.py", SCRIPT)
    cli.write("data.py", "from torchvision.datasets import MNIST\n\nMNIST('d', download=True)\n")
    job(cli, "pip install x; python train.py || true")
    assert "would fail" not in cli("run", "job.yml", "--dry-run").err
    cli.write("worldsize.toml", "[compute.local]\noffline = true\n")
    said = cli("run", "job.yml").err
    where = "would fail: the nodes reach no network"
    for line in (
        "job.yml:2: command: pip install %s (stage: {pip: requirements.txt}" % where,
        "train.py:4: from_pretrained('gpt2') %s (stage: {huggingface: [gpt2]})" % where,
        "data.py:3: MNIST(download=True) %s" % where,
    ):
        assert "notice: " + line in said, said


def test_what_is_staged_is_not_told(cli: Cli, site: Site) -> None:
    cli.write("worldsize.toml", "[compute.local]\noffline = true\n")
    cli.write("train.py", "import requests\nrequests.get('https://x')\n")
    job(cli, "python train.py || true", stage={"data": {"x.txt": site.url + "/x.txt"}})
    assert "would fail" not in cli("run", "job.yml").err
