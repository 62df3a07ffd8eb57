"""worldsize hpcpack share, as somebody types it; its script is tested by itself, `check` on a simulated cluster."""

from __future__ import annotations

import json
import os

import pytest
from driver import Cli

SHARE = r"\\HEAD\CcpSpoolDir\app"
CONFIG = """
[compute.hpc]
type = "hpcpack"
url = "https://head.example"
user = 'HPC\\anna'
share = { head = '\\\\HEAD\\CcpSpoolDir\\app', node = "/data" }
"""


def test_the_script_is_of_the_configured_cluster(cli: Cli) -> None:
    cli.write("worldsize.toml", CONFIG)
    text = cli.ok("hpcpack", "share").out
    assert text.startswith("#!/bin/sh\n# Mounts //HEAD/CcpSpoolDir/app at /data,")
    found = cli.json("hpcpack", "share", "--owner", "anna:hpcusers", "--smb", "2.1", "--at", "/app")
    assert found["fstab"].startswith(
        "//HEAD/CcpSpoolDir/app /app cifs credentials=/etc/worldsize-app.credentials,vers=2.1"
    )
    assert found["options"].endswith(
        "uid=anna,gid=hpcusers,dir_mode=0750,file_mode=0750,mfsymlinks,nosuid,nodev,_netdev,nofail"
    )
    assert found["script"].startswith("#!/bin/sh\n")


def test_without_a_configuration_the_words_are_enough(cli: Cli) -> None:
    assert "at /app," in cli.ok("hpcpack", "share", "--head", SHARE, "--user", "anna").lines[1]


def test_apply_does_it_as_root(cli: Cli) -> None:
    """With a `mount` that notes what it is asked, and a root directory of its own."""
    tools, root = os.path.join(cli.root, "tools"), os.path.join(cli.root, "root")
    os.makedirs(tools)
    os.makedirs(os.path.join(root, "etc"))
    fstab = os.path.join(root, "etc", "fstab")
    open(fstab, "w").close()
    for name, line in (("mount", 'echo "$@" >$DESTDIR/mounted'), ("mount.cifs", ""), ("mountpoint", "exit 1")):
        with open(os.path.join(tools, name), "w") as file:
            file.write("#!/bin/sh\n%s\n" % line)
        os.chmod(file.name, 0o755)
    words = ("hpcpack", "share", "--apply", "--head", SHARE, "--user", "HPC\\root", "--at", "/no-such-app")
    environ = {"PATH": tools + ":" + cli.environ["PATH"], "DESTDIR": root, "WORLDSIZE_HPCPACK_PASSWORD": "s3cret"}
    result = cli(*words, **environ)
    if os.geteuid() != 0:
        assert result.code == 2 and "needs root" in result.err
        return
    assert (result.code, result.lines) == (0, ["//HEAD/CcpSpoolDir/app is mounted at /no-such-app"]), result
    with open(os.path.join(root, "etc", "worldsize-no-such-app.credentials")) as file:
        assert file.read() == "username=root\npassword=s3cret\ndomain=HPC\n"
    with open(fstab) as file:
        assert " /no-such-app cifs " in file.read()

    result = cli(*words, "-o", "json", **environ)
    assert result.code == 0 and "is mounted at" in result.err, result
    shown = json.loads(result.out)
    assert (shown["mounted"], shown["at"]) == (True, "/no-such-app")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["share"], "no compute of type hpcpack is configured"),
        (["check"], "no compute of type hpcpack is configured"),
        (["share", "--compute", "local"], "compute local is of type local"),
        (["share", "--compute", "lab"], "there is no compute 'lab'"),
        (["share", "--head", "/srv/app", "--user", "anna"], "'/srv/app' is not a share of a head node"),
        (["mount"], "invalid choice: 'mount'"),
    ],
)
def test_mistakes_are_said(cli: Cli, words: list[str], said: str) -> None:
    result = cli("hpcpack", *words)
    assert (result.code, result.out) == (2, "") and said in result.err, result


def test_several_clusters_want_a_name(cli: Cli) -> None:
    cli.write("worldsize.toml", CONFIG + CONFIG.replace("compute.hpc", "compute.lab"))
    result = cli("hpcpack", "share")
    assert result.code == 2 and "name one: hpc, lab" in result.err
    assert cli.ok("hpcpack", "share", "--compute", "lab").code == 0


def test_a_share_that_is_a_path_needs_no_mount(cli: Cli) -> None:
    cli.write("worldsize.toml", CONFIG.replace(r"\\HEAD\CcpSpoolDir\app", "/srv/app"))
    result = cli("hpcpack", "share")
    assert result.code == 2 and "compute.hpc.share.head: compute hpc has no share of a head node to mount" in result.err
