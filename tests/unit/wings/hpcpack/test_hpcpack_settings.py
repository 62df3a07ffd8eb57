"""A configured compute of type hpcpack: what its table may say, and what it means."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.errors import ConfigError
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.config.load import load_config
from worldsize.wings.hpcpack.settings import Share, require_mounted, share_of, windows_part


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
        ('{ head = "//head/app", node = "/no/such/directory" }', None),
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


# names of Windows


@pytest.mark.parametrize(
    "head",
    [
        r"\\HEAD\CcpSpoolDir\my app",
        "\\\\HEAD\\CcpSpoolDir\\my app\\",
        "//HEAD/CcpSpoolDir/my app",
        r"\\HEAD/CcpSpoolDir\my app",
    ],
)
def test_all_ways_to_write_the_share_are_one(head: str) -> None:
    share = Share(head, "/app", "/mnt/app")
    assert share.unc() == "//HEAD/CcpSpoolDir/my app"
    assert share.local_path(r"\\HEAD\CcpSpoolDir\my app\data\x.csv") == "/mnt/app/data/x.csv"


LONG = "\\".join(["a folder of 30 characters here"] * 12)


@pytest.mark.parametrize(
    ("windows", "local"),
    [
        (r"\\head\ccpspooldir\APP\Data\X 1.csv", "/mnt/app/Data/X 1.csv"),
        ("//HEAD/CcpSpoolDir/app/data/", "/mnt/app/data"),
        ("\\\\HEAD\\CcpSpoolDir\\app\\", "/mnt/app"),
        ("\\\\HEAD\\CcpSpoolDir\\app\\" + LONG, "/mnt/app/" + LONG.replace("\\", "/")),
        (r"\\HEAD\CcpSpoolDir\app2\x", None),
        (r"\\HEAD2\CcpSpoolDir\app\x", None),
        (r"Z:\app\x", None),
        ("x", None),
    ],
)
def test_what_windows_names_on_the_share(windows: str, local: str | None) -> None:
    share = Share(r"\\HEAD\CcpSpoolDir\app", "/app", "/mnt/app")
    assert share.local_path(windows) == local
    assert share._replace(local=None).local_path(windows) is None


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (r"/home/me/proj/Z:\app", r"Z:\app"),
        ("/home/me/proj/z:/my app", "z:/my app"),
        (r"/home/me/proj/\\HEAD\app\x", r"\\HEAD\app\x"),
        (r"\\HEAD\app", r"\\HEAD\app"),
        ("/mnt/app", None),
        (r"/mnt/a\b", None),
        ("/mnt/data:1/x", None),
    ],
)
def test_a_windows_path_is_recognised(path: str, found: str | None) -> None:
    assert windows_part(path) == found


@pytest.mark.parametrize("local", [r"Z:\app", "Z:/app", r"\\HEAD\CcpSpoolDir\app"])
def test_a_windows_path_is_no_mount_point(place: Place, local: str) -> None:
    share = r"{ head = '\\HEAD\CcpSpoolDir\app', node = '/app', local = '%s' }" % local
    place.project.write_text('[compute.lab]\ntype = "hpcpack"\nshare = %s\n' % share)
    with pytest.raises(ConfigError) as caught:
        require_mounted(share_of(place.load().compute("lab").options), "compute.lab.")
    assert local + " is a Windows path" in caught.value.what and caught.value.where == "compute.lab.share.local"


@pytest.mark.parametrize("ends", ["\r\n", "\n"])
def test_a_file_of_windows_editors(place: Place, ends: str) -> None:
    place.project.write_bytes(b"\xef\xbb\xbf" + HPCPACK.replace("\n", ends).encode())
    assert place.load().compute("lab").options["user"] == "CORP\\me"
    place.project.write_bytes(HPCPACK.encode("utf-16"))
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        place.load()
