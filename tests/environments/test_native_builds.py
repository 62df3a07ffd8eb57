"""Build steps: the guide's Horovod in small, compiled for real; wheels kept by their tools' versions; prerequisites."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from driver import Cli, wait_for
from native_sources import NCCL, horovod, nccl
from wheels import Links

from worldsize.errors import UsageError
from worldsize.wings.environments.inspect import machine
from worldsize.wings.environments.native.steps import wheel_key, with_new_names

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or shutil.which("mpicc") is None, reason="no gcc and mpicc to compile with"
)
SHOW = "command: python -c 'import horovod; print(*horovod.about())'\n"


def job(cli: Cli, links: Links, recipe: str, **values: str) -> str:
    """A job whose environment has setuptools, as the build needs it, and what `recipe` says."""
    lines = "".join("  - '%s'\n" % line for line in links.lines)
    text = SHOW + "environment:\n  pip:\n%s" % lines
    return cli.write("job.yml", text + recipe % values)


RECIPE = """\
  prerequisites: [gcc>=7.2, mpi]
  fetch:
  - {url: %(nccl)s, sha256: %(sum)s, to: %(home)s}
  build:
  - name: horovod
    pip: horovod==%(version)s
    options: [--no-build-isolation, --no-deps]
    variables:
      COUNT: %(home)s/compiled
      HOROVOD_NCCL_HOME: $HOME/nccl_2.3.7-1+cuda10.0_x86_64
      %(operations)s: NCCL
"""


def compiled(cli: Cli) -> int:
    """How often the extension was built."""
    path = Path(cli.root, "compiled")
    return sum("bdist_wheel" in line for line in path.read_text().splitlines()) if path.exists() else 0


def test_the_guides_recipe_in_small(cli: Cli, with_setuptools: Links, tmp_path: Path) -> None:
    """NCCL unpacked into the home directory; Horovod compiled against it and MPI; the old spelling; and kept as a wheel
    for whoever has the same tools, compiled anew for whoever has another compiler."""
    links = with_setuptools
    archive, checksum = nccl(tmp_path)
    horovod(links)
    values = {"nccl": str(archive), "sum": checksum, "home": cli.root, "version": "0.28.1"}
    job(cli, links, "  - setuptools\n" + RECIPE, **values, operations="HOROVOD_GPU_ALLREDUCE")
    first = cli.ok("run", "job.yml")
    assert first.out == "0:0: 2 3 NCCL mpi\n"
    assert (tmp_path / NCCL / "include" / "nccl.h").exists()
    assert compiled(cli) == 1
    entry = cli.json("env", "list")[0]
    description = cli.json("env", "show", entry["name"])
    (step,) = description["steps"]
    assert step["compiled"] == ["horovod==0.28.1"] and step["tools"]["nccl"] == "2.3.7" and step["tools"]["mpi"]
    log = Path(entry["prefix"] + ".log").read_text()
    assert "HOROVOD_GPU_ALLREDUCE=NCCL is the old spelling of HOROVOD_GPU_OPERATIONS=NCCL" in log

    job(
        cli,
        links,
        "  - setuptools\n" + RECIPE + "  variables: {OTHER: 1}\n",
        **values,
        operations="HOROVOD_GPU_OPERATIONS",
    )
    assert cli.ok("run", "job.yml").out == "0:0: 2 3 NCCL mpi\n"
    assert compiled(cli) == 1, "the wheel was kept"
    cli.ok("env", "remove", *(row["name"] for row in cli.json("env", "list")))
    newer = fake(tmp_path / "tools", "gcc", "99.2.0", 'exec %s "$@"' % shutil.which("gcc"))
    assert cli.ok("run", "job.yml", PATH="%s:%s" % (newer, cli.environ["PATH"])).out == "0:0: 2 3 NCCL mpi\n"
    assert compiled(cli) == 2, "another compiler, another wheel"


def fake(directory: Path, name: str, version: str, otherwise: str) -> Path:
    directory.mkdir(exist_ok=True)
    program = directory / name
    program.write_text(
        '#!/bin/sh\ncase "$1" in --version|-dumpfullversion) echo "%s"; exit ;; esac\n%s\n' % (version, otherwise)
    )
    program.chmod(0o755)
    return directory


def test_prerequisites_are_checked_first_and_all_at_once(cli: Cli, links: Links, tmp_path: Path) -> None:
    tools = fake(tmp_path / "tools", "gcc", "6.3.0", "exit 1")
    recipe = "  - nothing\n  prerequisites: [gcc>=7.2, nosuchtool, mpi>=99, cuda]\n  build: ['true']\n"
    job(cli, links, recipe)
    result = cli("run", "job.yml", PATH="%s:%s" % (tools, cli.environ["PATH"]))
    assert result.code == 1
    assert "gcc is 6.3.0, and gcc>=7.2 is required (load a newer one: modules: [gcc]" in result.err
    assert "nosuchtool is not on this machine" in result.err and "mpi>=99 is required" in result.err
    if not os.path.exists("/proc/driver/nvidia/version"):
        assert "no CUDA driver on this machine (build where there is a GPU: build_on: compute)" in result.err
    log = next(Path(cli.home, "envs").glob("*.log")).read_text()
    assert "pip" not in log, "nothing was installed before"


def test_steps_run_in_their_order_in_the_environment(cli: Cli, links: Links) -> None:
    links.wheel("demo", "1.0")
    recipe = """\
  - demo
  variables: {FROM_SPEC: "1"}
  build:
  - python -c 'import demo, os; print(os.environ["PREFIX"])' > $PREFIX/first
  - name: second
    run: |
      test "$FROM_SPEC" = 1
      cat $PREFIX/first > $PREFIX/second
      echo $MINE >> $PREFIX/second
    variables: {MINE: "$FROM_SPEC-2"}
  - {run: "touch $PREFIX/gpu", when: cuda>=99}
  - {run: "touch $PREFIX/none", when: no cuda>=99}
"""
    job(cli, links, recipe)
    prefix = Path(cli.ok("env", "build", "job.yml").out.strip())
    assert (prefix / "second").read_text() == "%s\n1-2\n" % prefix
    assert (prefix / "none").exists() and not (prefix / "gpu").exists()
    steps = cli.json("env", "show", prefix.name)["steps"]
    assert [step["name"] for step in steps[:2]] == [steps[0]["name"], "second"]
    assert steps[2]["left_out"] == "cuda>=99"


def test_a_step_that_fails_is_named_with_its_last_words(cli: Cli, links: Links) -> None:
    job(
        cli,
        links,
        "  - setuptools\n".replace("  - setuptools\n", "")
        + "  build:\n  - {name: make it, run: 'echo no rule >&2; false'}\n",
    )
    result = cli("run", "job.yml")
    assert result.code == 1
    assert "make it failed with code 1" in result.err and "no rule" in result.err
    assert cli.json("env", "list") == []


@pytest.mark.parametrize(
    ("step", "said", "mend"),
    [
        ("kill -9 $$", "was killed by signal 9 (SIGKILL)", "was memory short here? build_on: compute"),
        ("sh -c 'kill -9 $$'", "failed with code 137", "was memory short here? build_on: compute"),
        ("echo 'cc1: No space left on device' >&2; false", "failed with code 1", "the disk is full: worldsize env gc"),
    ],
)
def test_a_step_that_lacked_room_is_told_what_helps(cli: Cli, step: str, said: str, mend: str) -> None:
    environment = {"python": ">=3.8", "build": [{"name": "make it", "run": step}]}
    cli.write("job.yml", json.dumps({"command": "true", "environment": environment}))
    result = cli("run", "job.yml")
    assert result.code == 1
    assert "make it " + said in result.err and mend in result.err


def test_a_download_that_is_another_file_is_refused(cli: Cli, links: Links, tmp_path: Path) -> None:
    archive, _ = nccl(tmp_path)
    job(cli, links, "  fetch: [{url: %(url)s, sha256: %(sum)s}]\n", url=str(archive), sum="0" * 64)
    result = cli("run", "job.yml")
    assert result.code == 1 and "its sha256 is" in result.err
    assert not (tmp_path / NCCL).exists()


def test_a_download_without_a_place_is_part_of_the_environment(cli: Cli, links: Links, tmp_path: Path) -> None:
    archive, checksum = nccl(tmp_path)
    recipe = "  fetch: [{url: %(url)s, sha256: %(sum)s}]\n  ld_library_path: $PREFIX/opt/%(name)s/lib\n"
    lines = "environment:\n" + recipe % {"url": archive, "sum": checksum, "name": NCCL}
    cli.write("job.yml", "command: echo $LD_LIBRARY_PATH; ls $LD_LIBRARY_PATH\n" + lines)
    prefix = cli.ok("env", "build", "job.yml").out.strip()
    assert cli.ok("run", "job.yml", LD_LIBRARY_PATH="").lines == [
        "0:0: %s/opt/%s/lib" % (prefix, NCCL),
        "0:0: libnccl.so.2.3.7",
    ]


def test_what_is_there_under_the_same_name_is_not_overwritten(cli: Cli, links: Links, tmp_path: Path) -> None:
    archive, checksum = nccl(tmp_path)
    (tmp_path / NCCL).mkdir()
    (tmp_path / NCCL / "mine").write_text("")
    job(
        cli,
        links,
        "  fetch: [{url: %(url)s, sha256: %(sum)s, to: %(home)s}]\n",
        url=str(archive),
        sum=checksum,
        home=cli.root,
    )
    result = cli("run", "job.yml")
    assert result.code == 1 and "exists already" in result.err
    assert os.listdir(tmp_path / NCCL) == ["mine"]


def test_old_and_new_spelling_of_horovods_variable() -> None:
    old, new = {"HOROVOD_GPU_ALLREDUCE": "NCCL", "A": "1"}, {"HOROVOD_GPU_OPERATIONS": "NCCL", "A": "1"}
    assert with_new_names(old, ["horovod==0.28.1"])[0] == new
    assert with_new_names(old, ["horovod"])[0] == new
    assert with_new_names(old, ["horovod==0.15.1"]) == (old, None)
    assert with_new_names({**old, **new}, ["horovod[pytorch]"])[0] == new
    assert with_new_names(new, ["horovod"]) == (new, None)


def test_the_key_of_wheels_holds_what_they_depend_on() -> None:
    tools = {"gcc": "12.2.0", "mpi": "4.1.4", "nvcc": "12.4", "nccl": "2.21.5", "python": "3.11"}
    key = wheel_key(tools, ["horovod"], [], {"A": "1"})
    assert key == wheel_key(dict(reversed(tools.items())), ["horovod"], [], {"A": "1"})
    others = [wheel_key({**tools, name: "0"}, ["horovod"], [], {"A": "1"}) for name in tools]
    others += [wheel_key(tools, ["horovod==1"], [], {"A": "1"}), wheel_key(tools, ["horovod"], ["-v"], {"A": "1"})]
    others.append(wheel_key(tools, ["horovod"], [], {"A": "2"}))
    assert len({key, *others}) == len(others) + 1


@pytest.mark.parametrize(
    ("wanted", "found", "fits"),
    [(">=7.2", "7.2.0", True), (">=7.2", "12.2.0", True), (">=7.2", "4.8.5", False), ("==12", "12.4", True),
     ("==12.1", "12.4", False), ("<5", "4.1.4", True), (">4.1.4", "4.1.4", False)],
)  # fmt: skip
def test_versions_of_tools(tmp_path: Path, wanted: str, found: str, fits: bool) -> None:
    directory = fake(tmp_path / "tools", "thing", "thing (GNU) %s" % found, "exit 1")
    said = machine.problem("thing" + wanted, {"PATH": str(directory)})
    assert (said is None) is fits, said


def test_tools_of_this_machine() -> None:
    found = machine.tool_versions(dict(os.environ))
    assert machine.version_numbers(found["gcc"]) >= (7,)
    assert machine.version_numbers(found["mpi"]) >= (1,)
    assert machine.problem("mpicc", dict(os.environ)) is None
    with pytest.raises(UsageError, match="is not a prerequisite"):
        machine.problem("gcc >> 7", dict(os.environ))


def test_what_conda_brings_need_not_be_here() -> None:
    assert machine.tools_from_conda(["python=3.11", "conda-forge::openmpi >=4", "gxx_linux-64=12.*"]) == [
        "gcc",
        "g++",
        "mpi",
    ]
    assert sys.version_info >= (3, 10)


def test_steps_on_a_node_of_the_compute(cli: Cli, with_setuptools: Links, tmp_path: Path) -> None:
    """As a run, which downloads nothing: the source is fetched before, what it needs is installed before."""
    links = with_setuptools
    archive, checksum = nccl(tmp_path)
    horovod(links)
    for number in ("2.0", "3.0"):
        links.wheel("cloudpickle", number)
    values = {"nccl": str(archive), "sum": checksum, "home": cli.root, "version": "0.28.1"}
    cli.write("worldsize.toml", '[compute.gpus]\ntype = "local"\n')
    recipe = RECIPE.replace(", --no-deps", "") + "  build_on: compute\n"
    job(cli, links, "  - setuptools\n  - cloudpickle==2.0\n" + recipe, **values, operations="HOROVOD_GPU_OPERATIONS")
    cli.write("job.yml", cli.read_project("job.yml") + "compute: gpus\n")
    result = cli.ok("run", "job.yml")
    assert result.out == "0:0: 2 3 NCCL mpi\n"
    runs = cli.json("list")
    assert [(run["name"].split(" ")[0], run["compute"], run["state"]) for run in runs][1:] == [
        ("build", "gpus", "SUCCEEDED")
    ]
    entry = cli.json("env", "list")[0]
    shown = cli.json("env", "show", entry["name"])
    assert shown["steps"][0]["compiled"] == ["horovod==0.28.1"]
    assert {row["name"]: row["version"] for row in shown["pip"]}["cloudpickle"] == "2.0", "what is there stays"


def test_steps_that_fail_on_a_node_are_told_where_they_were_ordered(cli: Cli, links: Links) -> None:
    recipe = "  build_on: compute\n  prerequisites: [nosuchtool]\n  build: ['true']\n"
    job(cli, links, recipe)
    result = cli("run", "job.yml")
    assert result.code == 1
    assert "the build steps failed" in result.err and "nosuchtool is not on this machine" in result.err
    assert "worldsize logs" in result.err
    assert cli.json("env", "list") == []


def test_a_build_that_was_killed_while_a_node_was_at_work_is_ended_before_the_next(cli: Cli, links: Links) -> None:
    """The node would write into the prefix of the next builder. Whoever gives up waiting ends the run itself."""
    job(cli, links, "  build_on: compute\n  build: ['echo $PREFIX >> %(home)s/begun; sleep 600']\n", home=cli.root)
    begun = Path(cli.root, "begun")
    with cli.start("env", "build", "job.yml") as builder:
        wait_for(begun.exists, 60)
        builder.kill()
    first = cli.json("list")[0]
    wait_for(lambda: cli.status(first["id"])["state"] == "RUNNING")
    with cli.start("env", "build", "job.yml") as builder:
        wait_for(lambda: len(begun.read_text().split()) == 2, 60)
        assert len(set(begun.read_text().split())) == 1, "the same prefix"
        assert cli.status(first["id"])["state"] == "CANCELLED"
        builder.send_signal(signal.SIGINT)
        assert builder.wait() == 130
    assert [run["state"] for run in cli.json("list")] == ["CANCELLED", "CANCELLED"]
    assert cli.json("env", "list") == []
