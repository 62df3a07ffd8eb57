"""A configured compute of type hpcpack: what its table may say, and what it means."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.errors import ConfigError
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.config.load import load_config


class Place:
    """A project and its configuration."""

    def __init__(self, root: Path) -> None:
        self.project = root / "worldsize.toml"
        self.environ = {"HOME": str(root), "WORLDSIZE_SITE_CONFIG": ""}

    def load(self) -> Config:
        return load_config(str(self.project.parent), self.environ)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


HPCPACK = r"""
[compute.lab]
type = "hpcpack"
url = "https://head"
user = 'CORP\me'
share = { head = '\\head\CcpSpoolDir\app', node = "/app", local = "app" }
ca_file = "head.pem"
python = "~/env/bin/python3"
node_group = ["GPU", "Linux"]
job_properties = { HoldUntil = "tomorrow" }
"""


def test_an_hpc_pack_compute_keeps_its_runs_on_its_share(place: Place) -> None:
    """What names a path of the nodes stays as it is written."""
    place.project.write_text(HPCPACK)
    lab = place.load().compute("lab")
    folder = str(place.project.parent)
    assert (lab.runs_dir, lab.python) == (folder + "/app/runs", "~/env/bin/python3")
    assert lab.options == {
        "url": "https://head",
        "user": "CORP\\me",
        "share": {"head": "\\\\head\\CcpSpoolDir\\app", "node": "/app", "local": folder + "/app"},
        "ca_file": folder + "/head.pem",
        "node_group": ("GPU", "Linux"),
        "job_properties": {"HoldUntil": "tomorrow"},
    }
    place.project.write_text(HPCPACK + 'runs_dir = "elsewhere"\n')
    assert place.load().compute("lab").runs_dir == folder + "/elsewhere"


@pytest.mark.parametrize(
    ("share", "runs_dir"),
    [
        ('{ head = "/mnt/app", node = "/app" }', "/mnt/app/runs"),
        (r"{ head = '\\head\app', node = '/usr' }", "/usr/runs"),
        (r"{ head = '\\head\app', node = '/no/such/directory' }", None),
    ],
)
def test_where_the_share_is_seen_here(place: Place, share: str, runs_dir: str | None) -> None:
    place.project.write_text('[compute.lab]\ntype = "hpcpack"\nshare = %s\n' % share)
    assert place.load().compute("lab").runs_dir == runs_dir


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('node_gruop = "x"', "did you mean 'node_group'?"),
        ('password = "x"', "no file stores the password: set WORLDSIZE_HPCPACK_PASSWORD"),
        ("share = 'x'", "expected a mapping"),
        ("share.nodes = '/app'", "did you mean 'node'?"),
        ("generation = 2012", "is not one of the allowed values"),
        ("verify = 'no'", "expected true or false"),
        ("node_group_op = 'Unoin'", "did you mean 'Union'?"),
    ],
)
def test_what_an_hpc_pack_compute_does_not_know_is_refused(place: Place, line: str, says: str) -> None:
    place.project.write_text('[compute.lab]\ntype = "hpcpack"\n%s\n' % line)
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert says in str(caught.value) and "worldsize.toml:3" in str(caught.value)
