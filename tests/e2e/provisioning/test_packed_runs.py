"""Runs in an environment that the nodes unpack, as a user sees them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from driver import Cli, unfolded

from worldsize.wings.provisioning.agent.pack_format import PIECE

SHOW = (
    "python -c \"import tiny, sys, os; print(tiny.NAME, sys.prefix, os.environ['VIRTUAL_ENV'], os.environ.get('SET'))\""
)


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> str:
    prefix = tmp_path_factory.mktemp("envs") / "mine"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    site = next((prefix / "lib").glob("python*/site-packages"))
    (site / "tiny.py").write_text("NAME = 'tiny'\n")
    (site / "large").write_bytes(os.urandom(PIECE + (1 << 20)))
    (prefix / "bin" / "tiny").write_text("#!%s/bin/python\nimport tiny; print(tiny.NAME)\n" % prefix)
    (prefix / "bin" / "tiny").chmod(0o755)
    return str(prefix)


@pytest.fixture(scope="module")
def packed(venv: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("cli")
    cli = Cli(str(root))
    result = cli("env", "pack", venv, "-o", "env.tar.gz", timeout=120)
    assert result.code == 0 and result.lines == ["env.tar.gz"] and "files, " in result.err, result
    return os.path.join(cli.project, "env.tar.gz")


@pytest.fixture
def disk(cli: Cli) -> str:
    """Where the nodes unpack."""
    disk = os.path.join(cli.root, "disk")
    os.mkdir(disk)
    cli.environ["WORLDSIZE_LOCAL_DIR"] = disk
    return os.path.join(disk, "worldsize-%d" % os.getuid())


def job(cli: Cli, environment: object, command: str = SHOW, **keys: object) -> None:
    cli.write("job.yml", json.dumps({"command": command, "environment": environment, **keys}, indent=1))


def events(cli: Cli, run: str, kind: str) -> list[dict[str, object]]:
    folder = cli.path(run, "attempt-0", "events")
    lines = [json.loads(line) for name in sorted(os.listdir(folder)) for line in open(os.path.join(folder, name))]
    return [line for line in lines if line["event"] == kind]


def test_a_packed_environment_is_named_like_any_other(cli: Cli, disk: str, packed: str) -> None:
    job(cli, packed, SHOW + "; tiny")
    result = cli("run", "job.yml", "-w", "2x2")
    (place,) = Path(disk, "envs").glob("*/")
    assert unfolded(result.lines) == ["tiny"] * 4 + ["tiny %s %s None" % (place, place)] * 4, result
    assert len(events(cli, cli.latest(), "prepared")) == 2 and os.listdir(os.path.join(disk, "runs")) == []
    before = place.stat().st_ino
    again = cli("run", "job.yml")
    assert again.code == 0 and place.stat().st_ino == before
    assert cli("rerun").lines == again.lines
    job(cli, packed, setup=["export SET=$VIRTUAL_ENV/lib"])
    assert cli("run", "job.yml").lines == ["0:0: tiny %s %s %s/lib" % (place, place, place)]


def test_a_prefix_is_packed_once_and_its_setup_holds_there(cli: Cli, disk: str, venv: str) -> None:
    job(cli, {"python": venv, "distribute": "local"}, setup=["export SET=$VIRTUAL_ENV/lib"])
    first = cli("run", "job.yml", "-w", "3x1", timeout=120)
    (place,) = Path(disk, "envs").glob("*/")
    assert unfolded(first.lines) == ["tiny %s %s %s/lib" % (place, place, place)] * 3, first
    assert "packing mine" in first.err
    second = cli("run", "job.yml", "--count", "2")
    assert second.code == 0 and "packing" not in second.err
    assert len(cli.ok("logs").lines) == 2 and str(place) in cli.ok("logs").out
    assert cli.ok("run", "job.yml", "--dry-run").code == 0


def test_shared_reads_it_where_it_is(cli: Cli, disk: str, venv: str) -> None:
    for environment in ({"python": venv, "distribute": "shared"}, {"python": venv}, venv):
        job(cli, environment)
        assert cli("run", "job.yml").lines == ["0:0: tiny %s %s None" % (venv, venv)]
    assert not os.path.exists(disk)


def test_a_file_that_changes_is_another_environment(cli: Cli, disk: str, packed: str) -> None:
    copy = os.path.join(cli.project, "copy.tar.gz")
    with open(packed, "rb") as source:
        data = bytearray(source.read())
    with open(copy, "wb") as file:
        file.write(data)
    job(cli, copy, "true")
    cli.run("job.yml")
    data[-100] ^= 1  # behind the piece with the description, which the client reads
    with open(copy, "wb") as file:
        file.write(data)
    os.utime(copy, (1, 1))
    result = cli("run", "job.yml")
    assert result.code == 1 and "its environment could not be prepared: the packed environment is damaged" in result.err
    assert cli.status()["reason"] == "ENVIRONMENT"
    assert [name for name in os.listdir(os.path.join(disk, "envs")) if name.endswith(".part")] == []


def test_what_is_no_environment_is_refused(cli: Cli, packed: str) -> None:
    cli.write("not.tar.gz", "no archive")
    for environment, said in (
        ("./not.tar.gz", "is not a packed environment"),
        ("./none.tar.gz", "no such"),
        ({"python": packed, "pip": ["numpy"]}, "nothing can be installed into a packed environment"),
    ):
        job(cli, environment)
        result = cli("run", "job.yml")
        assert result.code == 2 and said in result.err and "job.yml:" in result.err, result
    assert "is packed already" in cli("env", "pack", packed).err
    cli.write("job.slurm", "#!/bin/bash\n#SBATCH --ntasks=2\nsrun hostname\n")
    refused = cli("run", "job.slurm", "--set", "environment=" + packed)
    assert refused.code == 2 and "a batch script's own srun" in refused.err
