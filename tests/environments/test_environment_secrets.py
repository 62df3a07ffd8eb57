"""What a token of a channel, or the password of an index, is written into: nothing that lasts."""

from __future__ import annotations

import json
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import wheels
from driver import Cli
from server import serve

TOKEN, PASSWORD = "CanaryOfTheChannel", "CanaryOfTheIndex"
JOB = """\
command: alpha-say
environment:
  name: sec
  channels: ['%s/t/%s/ch']
  conda: [alpha]
  pip: %s
"""


def holding(root: Path, *canaries: str) -> Iterator[str]:
    """The files below a directory, members of archives too, that hold one of these."""
    for path in root.rglob("*"):
        if path.is_symlink() or not stat.S_ISREG(path.lstat().st_mode):
            continue
        data = path.read_bytes()
        if any(canary.encode() in data for canary in canaries):
            yield str(path)
        if path.name.endswith((".tar.gz", ".tgz")):
            with tarfile.open(path) as archive:
                for member in archive:
                    content = archive.extractfile(member) if member.isfile() else None
                    if content and any(canary.encode() in content.read() for canary in canaries):
                        yield "%s: %s" % (path, member.name)


@pytest.mark.exhaustive(unless=["propose", "alias"])
@pytest.mark.parametrize("way", ["envs_dir", "RATTLER_CACHE_DIR", "propose", "alias"])
def test_the_cache_of_conda_is_closed_to_others(cli: Cli, channel: Path, tmp_path: Path, way: str) -> None:
    """Found by review: it was made as the umask says; others could read tokens in it, and write what is installed."""
    top = tmp_path / "served"
    (top / "t" / TOKEN).mkdir(parents=True)
    (top / "t" / TOKEN / "ch").symlink_to(channel)
    shared = tmp_path / "shared"
    shared.mkdir()
    environ = {"RATTLER_CACHE_DIR": str(shared)} if way in ("RATTLER_CACHE_DIR", "alias") else {}
    cli.write("worldsize.toml", 'envs_dir = "%s"\n' % (tmp_path / "envs"))
    before = os.umask(0o002)
    try:
        with serve(top, "anna", PASSWORD) as served:
            base = served.url.replace("http://", "http://anna:%s@" % PASSWORD)
            wanted = "%s/t/%s/ch" % (base, TOKEN)
            if way == "alias":  # found by review: only channels were looked at
                alias, wanted = wanted.removesuffix("/ch"), "ch"
                cli.write(
                    "worldsize.toml", 'envs_dir = "%s"\n[conda]\nchannel_alias = "%s"\n' % (tmp_path / "envs", alias)
                )
            if way == "propose":
                cli.write("list.txt", "alpha\n")
                cli("env", "propose", "list.txt", "--channel", wanted)
            else:
                cli.write("environment.yml", "channels: ['%s']\ndependencies: [alpha]\n" % wanted)
                cli.ok("env", "build", "environment.yml", **environ)
    finally:
        os.umask(before)
    for place in (cli.home, cli.home + "/cache", cli.home + "/cache/conda"):
        assert os.stat(place).st_mode & 0o777 == 0o700, place
    assert list(holding(shared, TOKEN, PASSWORD)) == []


def test_a_cache_that_others_can_write_to(cli: Cli) -> None:
    """What is compiled and fetched there is installed: it is made closed to them, or refused."""
    cli.write("worldsize.toml", 'envs_dir = "%s/envs"\n' % cli.root)
    cli.write("job.yml", "command: 'true'\nenvironment: {python: '>=3.8'}\n")
    cli.ok("env", "build", "job.yml")
    cache = Path(cli.home, "cache")
    assert cache.stat().st_mode & 0o777 == cache.parent.stat().st_mode & 0o777 == 0o700
    cache.chmod(0o777)
    cli.write("job.yml", "command: 'true'\nenvironment: {python: '>=3.8', build: ['true']}\n")
    refused = cli("env", "build", "job.yml")
    assert refused.code != 0 and "every user may write to it" in refused.err


def test_a_step_of_a_build(cli: Cli, tmp_path: Path) -> None:
    """Found by review: the first line of a step was its name, which messages, `env show` and the run's record have."""
    line = "echo https://anna:%s@host/x.tgz --api-key %s" % (PASSWORD, TOKEN)
    job = {"command": "echo done", "share": "group", "environment": {"name": "sec", "build": [{"run": line}]}}
    cli.write("job.yml", json.dumps(job))
    built = cli("run", "job.yml")
    assert built.code == 0 and "0:0: done" in built.out, built
    shown = cli.ok("env", "show", "sec", "-o", "json")
    assert "echo https://anna:***@host/x.tgz --api-key ***" in shown.out
    job["environment"]["build"] += [{"run": "false --password " + PASSWORD}]
    cli.write("job.yml", json.dumps(job))
    failed = cli("run", "job.yml")
    assert failed.code != 0 and "false --password ***" in failed.err
    said = [result.out + result.err for result in (built, shown, failed)]
    assert TOKEN not in "".join(said) and PASSWORD not in "".join(said)
    assert [name for name in holding(tmp_path, TOKEN, PASSWORD) if os.path.basename(name) != "job.yml"] == []


def test_a_channels_token_and_an_indexs_password(cli: Cli, channel: Path, tmp_path: Path) -> None:
    """Found by review: locks, records, the environment and its pack held them, and are made to be shared."""
    top = tmp_path / "served"
    (top / "t" / TOKEN).mkdir(parents=True)
    (top / "t" / TOKEN / "ch").symlink_to(channel)
    links = wheels.Links(top / "wheels")
    links.wheel("demo", "1.0")
    links.wheel("direct", "1.0")
    with serve(top, "anna", PASSWORD) as served:
        base = served.url.replace("http://", "http://anna:%s@" % PASSWORD)
        pip = ["--no-index", "--find-links %s/wheels/" % base, "demo", "direct @ %s/wheels/direct-1.0-py3-none-any.whl"]
        cli.write("requirements.txt", "demo\n")
        cli.write("job.yml", JOB % (base, TOKEN, json.dumps([*pip[:3], pip[3] % base, "-r requirements.txt"])))
        built = cli("run", "job.yml")
        assert built.code == 0 and "0:0: alpha 2.0" in built.out, built
        said = built.out + built.err
        for words in (("env", "lock"), ("env", "pack"), ("env", "show"), ("run", "--dry-run")):
            result = cli.ok(*words, "job.yml") if words != ("env", "show") else cli.ok(*words, "sec")
            said += result.out + result.err
    assert TOKEN not in said and PASSWORD not in said
    held = [name for name in holding(tmp_path, TOKEN, PASSWORD) if not name.startswith(str(top))]
    assert [name for name in held if os.path.basename(name) != "job.yml"] == []
    assert list(tmp_path.rglob("job.lock.json")) and list(tmp_path.rglob("*.tar.gz"))


def test_lines_of_bash_are_in_no_command_line(cli: Cli, tmp_path: Path) -> None:
    """Found by review: everybody on the machine could read what a setup or an environment exports."""
    seen = tmp_path / "seen"
    bash = cli.write(
        "bin/bash", '#!/bin/sh\n{ echo "$*"; tr "\\\\0" " " </proc/$PPID/cmdline; } >>%s\nexec /bin/bash "$@"\n' % seen
    )
    os.chmod(bash, 0o755)
    path = "%s:%s" % (os.path.dirname(bash), cli.environ["PATH"])
    job = {
        "command": "echo $HF_TOKEN $WANDB_API_KEY",
        "setup": ["export WANDB_API_KEY=" + PASSWORD],
        "environment": {"name": "sec", "variables": {"HF_TOKEN": TOKEN}, "build": [{"run": "true"}]},
    }
    cli.write("job.yml", json.dumps(job))
    for words in (("build", "job.yml"), ("check", "job.yml"), ("shell", "job.yml", "--", "printenv", "HF_TOKEN")):
        before = len(seen.read_text()) if seen.exists() else 0
        done = cli.ok("env", *words, PATH=path)
        assert len(seen.read_text()) > before, words
    assert done.out == TOKEN + "\n"
    done = cli.ok("run", "job.yml", PATH=path)
    assert "0:0: %s %s" % (TOKEN, PASSWORD) in done.out
    assert TOKEN not in seen.read_text() and PASSWORD not in seen.read_text()
