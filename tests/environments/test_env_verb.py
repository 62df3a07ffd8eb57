"""The verb `env`: build, list, show, remove, gc, shell, lock, propose."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from driver import Cli, wait_for
from wheels import Links

ACTIONS = ("build", "list", "show", "remove", "gc", "shell", "lock", "propose", "probe")


@pytest.fixture
def built(cli: Cli, links: Links) -> str:
    """An environment called mine, with demo in it."""
    links.wheel("demo", "1.0")
    cli.write("requirements.txt", links.requirements("demo"))
    return cli.ok("env", "build", "requirements.txt", "--name", "mine").out.strip()


def test_a_build_prints_where_it_is_and_the_second_one_at_once(cli: Cli, built: str) -> None:
    assert os.path.isdir(built) and os.path.basename(built).startswith("mine-")
    again = cli.json("env", "build", "requirements.txt")
    assert (again["prefix"], again["built"], again["kind"]) == (built, False, "venv")


def test_ten_submissions_at_once_build_once(cli: Cli, links: Links) -> None:
    links.wheel("demo", "1.0")
    cli.write("requirements.txt", links.requirements("demo"))
    cli.write("job.yml", "command: python -c 'import demo; print(demo.__version__)'\nenvironment: requirements.txt\n")
    running = [cli.start("run", "job.yml") for _ in range(10)]
    said = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0] * 10, said
    assert [out for out, _ in said] == [b"0:0: 1.0\n"] * 10
    assert sum(b"is built in" in err for _, err in said) == 1


def test_list_says_what_is_there_and_what_is_half(cli: Cli, built: str) -> None:
    half = Path(cli.home, "envs", "half-0123456789abcdef")
    half.mkdir()
    rows = {row["label"]: row for row in cli.json("env", "list")}
    assert (rows["mine"]["state"], rows["mine"]["packages"], rows["half"]["state"]) == ("ready", 1, "broken")
    assert abs(rows["mine"]["used"] - time.time()) < 60
    printed = cli.ok("env", "list").out
    assert printed.startswith("NAME ") and "mine-" in printed and "broken" in printed


def test_show_of_what_is_built_and_of_what_is_not(cli: Cli, built: str, links: Links) -> None:
    found = cli.json("env", "show", "mine")
    assert (found["prefix"], found["ready"], [row["name"] for row in found["pip"]]) == (built, True, ["demo"])
    assert "demo     1.0             pip" in cli.ok("env", "show", built).out
    cli.write("other.txt", links.requirements("demo<2"))
    other = cli.json("env", "show", "other.txt")
    assert other["ready"] is False and not os.path.exists(other["prefix"])
    assert cli("env", "show", "nosuch").code == 2


def test_remove_by_name_and_never_what_a_run_uses(cli: Cli, built: str) -> None:
    cli.write("job.yml", "command: sleep 600\nenvironment: requirements.txt\n")
    run = cli.submit("job.yml")
    wait_for(lambda: cli.status(run)["state"] == "RUNNING")
    refused = cli("env", "remove", "mine")
    assert refused.code == 2 and run in refused.err
    assert cli.json("env", "list")[0]["runs"] == [run]
    assert cli.json("env", "gc", "--unused", "0s") == []
    cli.ok("cancel", run, "--now")
    cli("wait", run)
    assert cli.ok("env", "remove", "mine").out == os.path.basename(built) + "\n"
    assert not os.path.exists(built) and cli.json("env", "list") == []
    assert cli("env", "remove", "mine").code == 2


def test_gc_removes_what_is_half_and_what_was_unused_for_long(cli: Cli, built: str) -> None:
    half = Path(cli.home, "envs", "half-0123456789abcdef")
    half.mkdir()
    (half / "file").write_text("x" * 5000)
    Path(cli.home, "envs", ".trash-0123").mkdir()
    would = cli.json("env", "gc", "--dry-run")
    assert [(row["name"], row["why"]) for row in would] == [(half.name, "incomplete")]
    assert would[0]["bytes"] >= 5000 and half.exists()
    assert [row["name"] for row in cli.json("env", "gc")] == [half.name]
    assert not half.exists() and os.path.isdir(built)
    assert not Path(cli.home, "envs", ".trash-0123").exists()
    long_ago = time.time() - 40 * 86400
    os.utime(os.path.join(built, "worldsize-environment.json"), (long_ago, long_ago))
    assert [row["why"] for row in cli.json("env", "gc")] == ["unused"]
    assert not os.path.exists(built)


def test_a_use_counts_for_gc(cli: Cli, built: str) -> None:
    long_ago = time.time() - 40 * 86400
    os.utime(os.path.join(built, "worldsize-environment.json"), (long_ago, long_ago))
    cli.write("job.yml", "command: 'true'\nenvironment: requirements.txt\n")
    cli.ok("run", "job.yml")
    assert cli.json("env", "gc") == []


def test_a_command_in_an_environment(cli: Cli, built: str) -> None:
    done = cli.ok(
        "env", "shell", "mine", "--", "python", "-c", "import demo, sys; print(demo.__version__, sys.argv)", "a b"
    )
    assert done.out == "1.0 ['-c', 'a b']\n"
    assert cli("env", "shell", "mine", "--", "sh", "-c", "exit 7").code == 7
    assert "needs a terminal" in cli("env", "shell", "mine").err
    assert "takes no command" in cli("env", "list", "--", "true").err


def test_a_built_environment_is_an_environment_of_jobs_by_its_name(cli: Cli, built: str) -> None:
    cli.write("job.yml", "command: which python\nenvironment: mine\n")
    assert cli.ok("run", "job.yml").out == "0:0: %s/bin/python\n" % built


def test_an_environment_whose_python_has_gone_is_not_another_python(cli: Cli, built: str) -> None:
    """Its `bin/python` led to one that was removed: the next one on PATH would run the job in silence."""
    os.unlink(built + "/bin/python")
    os.symlink("/nowhere/bin/python3.11", built + "/bin/python")
    name = os.path.basename(built)
    cli.write("job.yml", "command: python -V\nenvironment: requirements.txt\n")
    for words in (("run", "job.yml"), ("env", "build", "job.yml"), ("env", "shell", "job.yml", "--", "python")):
        result = cli(*words)
        assert result.code == 1
        assert "environment %s: its Python no longer exists: /nowhere/bin/python3.11" % name in result.err
        assert "worldsize env remove %s" % name in result.err
    cli.write("named.yml", "command: python -V\nenvironment: mine\n")
    assert "environment: environment %s: its Python no longer exists" % name in cli("run", "named.yml").err
    assert cli.json("list") == []
    cli.ok("env", "remove", name)
    assert cli.ok("env", "build", "job.yml").out.strip()[-16:] == built[-16:]


def test_a_lock_goes_where_it_is_told(cli: Cli, built: str) -> None:
    assert cli.ok("env", "lock", "requirements.txt", "--to", "x.lock.json").out == "x.lock.json\n"
    value = json.loads(cli.read_project("x.lock.json"))
    assert value["format"] == "worldsize-environment-lock" and "prefix" not in value
    assert cli.json("env", "build", "x.lock.json")["digest"] == value["digest"]
    assert cli.ok("env", "lock", "requirements.txt", "--to", "-").out == cli.read_project("x.lock.json")
    assert not os.path.exists(os.path.join(cli.project, "-"))


def test_a_pack_goes_into_a_folder(cli: Cli, built: str) -> None:
    os.mkdir(os.path.join(cli.project, "packs"))
    name = os.path.basename(built)
    assert cli.ok("env", "pack", "requirements.txt", "--to", "packs").out == "packs/%s.tar.gz\n" % name
    assert os.listdir(os.path.join(cli.project, "packs")) == [name + ".tar.gz"]


def test_an_environment_whose_description_is_damaged_is_not_there(cli: Cli, built: str) -> None:
    Path(built, "worldsize-environment.json").write_text("{")
    cli.write("job.yml", "command: 'true'\nenvironment: requirements.txt\n")
    for words in (("env", "build", "requirements.txt"), ("run", "job.yml")):
        result = cli(*words)
        assert result.code == 1 and result.out == ""
        assert "worldsize env remove %s rebuilds it" % os.path.basename(built) in result.err


def test_a_lock_of_what_is_named_is_whole(cli: Cli, built: str, tmp_path: Path) -> None:
    cli.ok("env", "lock", "requirements.txt", "--to", "of-file.json")
    for spec in ("mine", built):
        cli.ok("env", "lock", spec, "--to", "of-name.json")
        assert cli.read_project("of-name.json") == cli.read_project("of-file.json")
    venv = tmp_path / "theirs"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    refused = cli("env", "lock", str(venv), "--to", "of-name.json")
    assert refused.code == 2 and "was not built by worldsize" in refused.err
    assert cli.read_project("of-name.json") == cli.read_project("of-file.json")


def test_a_lock_that_cannot_be_written_leaves_the_one_that_is_there(cli: Cli, built: str) -> None:
    cli.write("x.lock.json", "older")
    command = "ulimit -f 0; exec %s -m worldsize env lock mine --to x.lock.json" % sys.executable
    done = subprocess.run(
        ["bash", "-c", command], cwd=cli.project, env=cli.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "x.lock.json: cannot write: File too large" in done.stderr
    assert "--to FILE" in done.stderr
    assert cli.read_project("x.lock.json") == "older"
    assert not [name for name in os.listdir(cli.project) if ".part" in name]


def test_what_is_proposed_can_be_built(cli: Cli, channel: Path) -> None:
    """A Python that no channel has is not the fault of what is asked for beside it."""
    cli.write("requirements.txt", "alpha\n-e ./mine\n")
    words = ("env", "propose", "requirements.txt", "--channel", "file://%s" % channel)
    proposed = cli.ok(*words)
    assert "  - %s/mine\n" % cli.project in proposed.out and "-e /" not in proposed.out
    assert "an environment cannot contain sources that change" in proposed.err
    assert "--python: 'abc' is not a version" in cli(*words, "--python", "abc").err
    refused = cli(*words, "--python", "3.99")
    assert refused.code == 2 and "the channels have no python 3.99.*" in refused.err


def test_a_requirements_list_is_split_by_what_channels_have(cli: Cli, channel: Path) -> None:
    lines = [
        "alpha>=2",
        "beta",
        "six==1.17.0",
        "native",
        "thing[extra]",
        "x @ https://h/x.whl",
        "old ; python_version<'3'",
    ]
    cli.write("requirements.txt", "\n".join(lines) + "\n")
    words = ("env", "propose", "requirements.txt", "--channel", "file://%s" % channel)
    found = cli.json(*words)
    assert found["conda"] == ["python", "alpha>=2", "native"]
    assert found["pip"] == ["beta", *lines[2:3], *lines[4:]]
    assert found["why"]["beta"] == "does not fit with the others", "it needs alpha below 2"
    assert found["why"]["six==1.17.0"] == "is in none of the channels"
    written = cli.ok(*words, "--python", "%d.%d" % sys.version_info[:2], "--name", "repo")
    assert "pip: thing[extra] has extras" in written.err
    cli.write("environment.yml", written.out)
    shown = cli.json("env", "show", "environment.yml")
    assert os.path.basename(shown["prefix"]).startswith("repo-")


@pytest.mark.exhaustive(unless=["TERM"])
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["INT", "TERM", "HUP"]
)
def test_a_signal_ends_a_build_and_leaves_nothing(cli: Cli, number: signal.Signals, code: int) -> None:
    """Ctrl-C, a scheduler's TERM, a terminal that closes: also what the build has started ends."""
    steps = "  build: ['touch %s/begun; sleep 600']\n" % cli.root
    cli.write("job.yml", "command: 'true'\nenvironment:\n  python: '>=3.8'\n" + steps)
    with cli.start("env", "build", "job.yml") as builder:
        wait_for(lambda: os.path.exists(os.path.join(cli.root, "begun")), 60)
        builder.send_signal(number)
        assert builder.wait() == code
    assert [name for name in os.listdir(cli.home + "/envs") if not name.endswith((".lock", ".log"))] == []
    wait_for(lambda: not cli.processes())


def test_a_probe_is_remembered(cli: Cli, channel: Path) -> None:
    """Its answer is what environments for that compute are built for, until worldsize.toml says otherwise."""
    cli.write("worldsize.toml", '[compute.other]\ntype = "local"\n')
    cli.write("environment.yml", "channels: ['file://%s']\ndependencies: [alpha]\n" % channel)
    before = cli.json("env", "show", "environment.yml", "--compute", "other")["prefix"]
    printed = cli.ok("env", "probe", "--compute", "other")
    assert printed.out.startswith('virtual_packages = ["__glibc=')
    found = cli.json("env", "probe", "--compute", "other")["virtual_packages"]
    assert found[0] == "__glibc=%s" % os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    assert cli.json("env", "show", "environment.yml", "--compute", "other")["prefix"] != before
    assert cli.json("env", "show", "environment.yml")["prefix"] == before


@pytest.mark.parametrize("action", ACTIONS)
def test_help_has_examples(cli: Cli, action: str) -> None:
    printed = cli.ok("env", action, "--help").out
    assert "examples:\n  worldsize env %s" % action in printed
    assert "--output" in printed or action == "shell"


def test_mistakes_are_told_with_the_way_out(cli: Cli) -> None:
    assert "did you mean --name?" in cli("env", "build", "x", "--nam", "y").err
    assert "invalid choice: 'buidl'" in cli("env", "buidl").err
    assert "no such file" in cli("env", "build", "./nowhere.yml").err
    assert "there is nothing to build" in cli("env", "build", "azureml:x:1").err
    assert cli("env", "gc", "--unused", "soon").code == 2
