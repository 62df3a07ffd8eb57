"""Secrets that builds are told: what is built again does without them or says so, and a scheduler is not given any."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from canaries import NAMED, Canaries
from driver import Cli
from webserver import serve
from wheels import Links

from worldsize.jobspec.job import Job
from worldsize.service.secrets import build_environ, restricted_environ

HARMLESS = "--with-auth=pam --sort-key loss KEY=Release"


def job(cli: Cli, step: dict[str, object], **more: object) -> None:
    environment = {"name": "own", "python": ">=3.8", "build": [step], **more}
    cli.write("job.yml", json.dumps({"command": "cat $OWN", "environment": environment}))


def test_harmless_words_are_built_again(cli: Cli, tmp_path: Path) -> None:
    """Found by review: `***` stood in their place, and the build succeeded."""
    said = tmp_path / "said"
    job(cli, {"run": "echo %s $MODE > %s" % (HARMLESS, said), "variables": {"MODE": "openssl"}})
    cli.ok("env", "build", "job.yml")
    cli.ok("env", "lock", "job.yml")
    assert said.read_text() == HARMLESS + " openssl\n"
    said.unlink()
    cli.ok("env", "remove", "own")
    cli.ok("env", "build", "job.lock.json")
    assert said.read_text() == HARMLESS + " openssl\n"


@pytest.mark.exhaustive(unless=["step1"])
@pytest.mark.parametrize(
    "step", [{"run": "echo --api-key 1A2b3C4d"}, {"run": "true", "variables": {"HUB_TOKEN": "1A2b3C4d"}}]
)
def test_a_lock_without_a_secret_of_its_steps_is_not_built(cli: Cli, step: dict[str, object]) -> None:
    job(cli, step)
    cli.ok("env", "build", "job.yml")
    cli.ok("env", "lock", "job.yml")
    assert "1A2b3C4d" not in cli.read_project("job.lock.json")
    cli.ok("run", "--set", "environment=job.lock.json", "--", "true")  # what it was made from is there
    cli.ok("env", "remove", "own")
    refused = cli("env", "build", "job.lock.json")
    assert refused.code == 1 and "the lock does not contain the secret" in refused.err, refused


def test_what_a_job_names_is_told_to_requirements_that_ask_for_it(tmp_path: Path) -> None:
    """And to nothing else that is built or fetched before the run."""
    (tmp_path / "requirements.txt").write_text("git+https://${GH_TOKEN}@h/x\n")
    listed = str(tmp_path / "requirements.txt")
    environ = {"GH_TOKEN": "a", "EXPERIMENT": "b", "PATH": "c"}
    for wanted in ({"pip": ["-r " + listed]}, listed, {"pip": ["git+https://${GH_TOKEN}@h/x"]}):
        found = build_environ(Job(environment=wanted, secrets=tuple(environ)[:2]), environ)
        assert found == {"GH_TOKEN": "a", "PATH": "c"}
    lines = ["git+https://${GH_TOKEN}@h/x"]
    staged = Job(stage={"pip": lines}, secrets=("EXPERIMENT", "GH_TOKEN"))
    assert restricted_environ(lines, staged, environ) == {"GH_TOKEN": "a", "PATH": "c"}
    assert build_environ(staged, environ) == {"PATH": "c"}  # found by review
    assert build_environ(Job(secrets=("EXPERIMENT", "GH_TOKEN")), environ) == {"PATH": "c"}


def test_what_a_job_names_is_kept_from_builds_on_a_node(cli: Cli) -> None:
    """Found by review: the run that builds had them in its environment, and in its record for good."""
    canaries = Canaries()
    variables = {"CONNECTED": "of-$EXPERIMENT-x", "HUB_TOKEN": canaries("Hub"), "PLAIN": "x-%s-y" % canaries("Hub")}
    cli.write("job.yml", json.dumps({
        "command": 'test -n "$EXPERIMENT" -a "$CONNECTED" = "of-$EXPERIMENT-x"',
        "secrets": [NAMED],
        "share": "group",
        "environment": {
            "python": ">=3.8", "variables": variables, "build_on": "compute",
            "build": [{"run": "test -z $EXPERIMENT"}],
        },
    }))  # fmt: skip
    cli.ok("run", "job.yml", **canaries.environ)
    assert [run["name"].partition(" ")[0] for run in cli.json("list")] == ["test", "build"]
    assert canaries.in_files(cli.root, but=("project/job.yml",)) == []


@pytest.mark.exhaustive(unless=["login"])
@pytest.mark.parametrize("place", ["login", "compute"])
def test_what_a_job_names_is_kept_from_a_build_without_a_run(cli: Cli, place: str) -> None:
    """Found by review: `env build`, `env lock` and `env pack` gave it to all that they started."""
    canaries = Canaries()
    environment = {"name": "own", "python": ">=3.8", "build_on": place, "build": [{"run": "env; test -z $EXPERIMENT"}]}
    cli.write("job.yml", json.dumps({"command": "true", "secrets": [NAMED], "environment": environment}))
    for words in (("build", "job.yml"), ("lock", "job.yml"), ("pack", "job.yml")):
        cli.ok("env", *words, **canaries.environ)
    assert canaries.in_files(cli.root) == []


def test_rerun_asks_for_variables_of_the_environment(cli: Cli) -> None:
    """Found by review: they were left out, without a word."""
    environment = {"python": ">=3.8", "variables": {"HUB_TOKEN": "1A2b3C4d", "MODE": "fast"}}
    cli.write("job.yml", json.dumps({"command": "echo $HUB_TOKEN $MODE", "environment": environment}))
    run = cli.run("job.yml")
    refused = cli("rerun", run)
    assert refused.code == 2 and "HUB_TOKEN is not set here" in refused.err, refused
    again = cli.ok("rerun", run, HUB_TOKEN="5E6f")
    assert "5E6f fast" in again.out
    cli.ok("env", "lock", "job.yml")
    told = cli.ok("run", "--set", "environment=job.lock.json", "--", "true")
    assert "does not contain the value of HUB_TOKEN" in told.err


def test_a_wheel_at_an_address_is_the_one_that_was_locked(cli: Cli, links: Links) -> None:
    """Found by review: another one at the same address was installed."""
    wheel = links.wheel("demo", "1.0")
    with serve() as site:
        site.files["/" + wheel.name] = wheel.read_bytes()
        pip = ["--no-index", "demo @ %s/%s" % (site.url, wheel.name)]
        cli.write("job.yml", json.dumps({"command": "true", "environment": {"python": ">=3.8", "pip": pip}}))
        cli.ok("env", "lock", "job.yml")
        cli.ok("env", "remove", "pip")
        cli.ok("env", "build", "job.lock.json", UV_CACHE_DIR=cli.root + "/empty-1")
        cli.ok("env", "remove", "pip")
        site.files["/" + wheel.name] = links.wheel("demo", "1.0", {"demo.py": "import os\n"}).read_bytes()
        refused = cli("env", "build", "job.lock.json", UV_CACHE_DIR=cli.root + "/empty-2")
    assert refused.code == 1 and "demo differs from the lock" in refused.err, refused


def test_a_token_in_an_address_that_a_requirement_asks_for(cli: Cli, links: Links) -> None:
    """Found by review: what is kept of the environment for the group of a shared run had it, and so had locks."""
    canaries = Canaries()
    wheel = links.wheel("demo", "1.0")
    with serve() as site:
        site.files["/%s/%s" % (canaries("Address"), wheel.name)] = wheel.read_bytes()
        pip = ["--no-index", "demo @ %s/${DL_TOKEN}/%s" % (site.url, wheel.name)]
        job = {"command": "python -c 'import demo'", "secrets": ["DL_TOKEN"], "share": "group"}
        cli.write("job.yml", json.dumps({**job, "environment": {"python": ">=3.8", "pip": pip}}))
        cli.ok("run", "job.yml", DL_TOKEN=canaries("Address"))
        cli.ok("env", "lock", "job.yml", DL_TOKEN=canaries("Address"))
    assert [word for word in canaries.in_files(cli.root) if "/cache/" not in word] == []


def test_a_token_behind_an_address(cli: Cli, links: Links) -> None:
    """Found by review: packs had it, in what pip notes of where a package is from."""
    canaries = Canaries()
    wheel = links.wheel("demo", "1.0")
    with serve() as site:
        site.files["/" + wheel.name] = wheel.read_bytes()
        pip = ["--no-index", "demo @ %s/%s?sig=%s" % (site.url, wheel.name, canaries("Sig"))]
        cli.write("job.yml", json.dumps({"command": "true", "environment": {"python": ">=3.8", "pip": pip}}))
        cli.ok("env", "build", "job.yml")
    assert [word for word in canaries.in_files(cli.root) if "/cache/" not in word and "/job.yml" not in word] == []


def test_what_a_requirement_asks_for_reaches_a_build_on_a_node_as_a_secret(cli: Cli, links: Links) -> None:
    """Found by review: the run that builds had it in its record for good."""
    canaries = Canaries()
    wheel = links.wheel("demo", "1.0")
    with serve() as site:
        site.files["/%s/%s" % (canaries("Address"), wheel.name)] = wheel.read_bytes()
        pip = ["--no-index", "demo @ %s/${HUB_LOGIN}/%s" % (site.url, wheel.name)]
        environment = {"python": ">=3.8", "pip": pip, "build_on": "compute", "build": ["true"]}
        cli.write("job.yml", json.dumps({"command": "true", "secrets": ["HUB_LOGIN"], "environment": environment}))
        cli.ok("run", "job.yml", HUB_LOGIN=canaries("Address"))
    runs = Path(cli.home, "runs")
    assert len(list(runs.iterdir())) == 2 and canaries.in_files(str(runs)) == []


def test_a_token_that_a_file_asks_for_and_one_that_only_the_job_names(cli: Cli, links: Links) -> None:
    """Found by review: of both, locks and what is kept of the environment had the values."""
    canaries = Canaries()
    environ = {"FILES_TOKEN": canaries("File"), "EXPERIMENT": canaries("Named"), "DEEP_TOKEN": canaries("Deep")}
    with serve() as site:
        lines = {}
        for number, name in enumerate(environ):
            wheel = links.wheel("demo%d" % number, "1.0")
            site.files["/%s/%s" % (environ[name], wheel.name)] = wheel.read_bytes()
            lines[name] = "demo%d @ %s/${%s}/%s" % (number, site.url, name, wheel.name)
        cli.write("deep/list.txt", lines["DEEP_TOKEN"] + "\n")
        cli.write("requirements.txt", "-r deep/list.txt\n" + lines["FILES_TOKEN"] + "\n")
        pip = ["--no-index", "-r requirements.txt", lines["EXPERIMENT"]]
        job = {"command": "true", "secrets": ["EXPERIMENT"], "share": "group"}
        cli.write("job.yml", json.dumps({**job, "environment": {"python": ">=3.8", "pip": pip}}))
        shown = [cli("env", "lock", "job.yml", **environ), cli("run", "job.yml", **environ)]
        site.files.clear()
        job["environment"] = {"python": ">=3.8", "pip": [*pip, "gone"]}
        cli.write("job.yml", json.dumps(job))
        shown.append(cli("run", "job.yml", UV_CACHE_DIR=cli.root + "/empty", **environ))
        cli.write("stage.yml", json.dumps({"command": "true", "secrets": ["EXPERIMENT"], "stage": {"pip": pip}}))
        shown.append(cli("run", "stage.yml", **environ))
    assert [each.code for each in shown] == [0, 0, 1, 2], shown
    assert canaries.word not in "".join(each.out + each.err for each in shown)
    assert [word for word in canaries.in_files(cli.root) if "/cache/" not in word and "/empty/" not in word] == []


def test_what_steps_on_a_node_print(cli: Cli) -> None:
    """Found by review: it stayed in the environment, and went out with a pack of it."""
    canaries = Canaries()
    step = {"run": 'echo "with $DEPLOY_TOKEN $VIA_TOKEN $MORE_TOKEN"', "variables": {"MORE_TOKEN": canaries("More")}}
    variables = {"DEPLOY_TOKEN": canaries("Deploy"), "VIA_TOKEN": "$FILES_TOKEN"}
    environment = {"python": ">=3.8", "name": "x", "variables": variables, "build_on": "compute", "build": [step]}
    cli.write("job.yml", json.dumps({"command": "true", "environment": environment}))
    cli.ok("env", "build", "job.yml", FILES_TOKEN=canaries("Files"))
    assert canaries.in_files(cli.root, but=("project/job.yml",)) == []


def test_a_token_in_an_address_on_top_of_what_exists(cli: Cli, links: Links) -> None:
    """Found by review: the address was read back from the log, in which `***` stood for the token."""
    canaries = Canaries()
    wheel = links.wheel("demo", "1.0")
    with serve() as site:
        site.files["/%s/%s" % (canaries("Line"), wheel.name)] = wheel.read_bytes()
        pip = ["--no-index", "demo @ %s/${LINE_TOKEN}/%s" % (site.url, wheel.name)]
        environment = {"python": sys.executable, "pip": pip}
        cli.write("job.yml", json.dumps({"command": "python -c 'import demo'", "environment": environment}))
        cli.ok("run", "job.yml", LINE_TOKEN=canaries("Line"))
    found = canaries.in_files(cli.root, but=("project/job.yml",))
    assert [word for word in found if "/cache/" not in word and "/record.json" not in word] == []


TREE = """
[project]
name = "treepkg"
version = "1"
dependencies = ["zpkg @ git+https://user:%s@127.0.0.1:9/x.git"]
[dependency-groups]
dev = ["zpkg @ git+https://user:%s@127.0.0.1:9/x.git"]
"""


@pytest.mark.parametrize(
    "said",
    [
        {"build": [{"pip": ["TREE"]}]},
        {"build": [{"pip": ["treepkg @ file://TREE"]}]},
        {"build": [{"pip": ["six"], "options": ["--editable=TREE"]}]},
        {"build": [{"pip": ["six"], "options": ["-eTREE"]}]},
        {"build": [{"pip": ["six"], "options": ["--group", "TREE/pyproject.toml:dev"]}]},
        {"python": sys.executable, "pip": ["TREE"]},
        {"python": sys.executable, "pip": ["-r TREE/../list.txt"]},
        {"pip": ["TREE"]},
    ],
)
def test_a_password_in_a_tree_that_anything_of_a_build_names(cli: Cli, said: dict[str, Any]) -> None:
    """Found by review: it was refused in the plain list alone, and else git's words had it."""
    tree = os.path.dirname(cli.write("tree/pyproject.toml", TREE % ("hunter2", "hunter2")))
    cli.write("list.txt", "./tree\n")
    cli.write("environment.yml", json.dumps(said).replace("TREE", tree))
    refused = cli("env", "build", "environment.yml")
    assert refused.code == 1 and "holds a password" in refused.err and "hunter2" not in refused.err, refused


def test_a_list_behind_a_short_option(cli: Cli, tmp_path: Path) -> None:
    """Found by review: the address of one that is written together with its option reached git as it stands."""
    said = tmp_path / "said"
    (tmp_path / "bin").mkdir()
    git = tmp_path / "bin" / "git"
    git.write_text('#!/bin/sh\necho "$@" >>%s\n[ "$1" = fetch ] && exit 1\nexec /usr/bin/git "$@"\n' % said)
    git.chmod(0o755)
    path = cli.write("list.txt", "zpkg @ git+https://user:hunter2@127.0.0.1:9/x.git\n")
    cli.write("environment.yml", json.dumps({"build": [{"pip": ["six"], "options": ["-r" + path]}]}))
    refused = cli("env", "build", "environment.yml", PATH="%s:%s" % (git.parent, cli.environ["PATH"]))
    assert refused.code == 1 and "fetch" in said.read_text() and "hunter2" not in said.read_text(), refused
    assert "hunter2" not in refused.err


@pytest.mark.exhaustive(unless=["ab;Hunter2rest"])
@pytest.mark.parametrize("value", ["ab;Hunter2rest", "correct Hunter2 battery", "a&Hunter2", "it's Hunter2"])
def test_a_value_that_no_shape_takes_whole(cli: Cli, value: str) -> None:
    """Found by review: of what is known the beginning was masked by its shape, and then the rest was not found."""
    job = {"argv": ["true", "--password=${{inputs.password}}"], "share": "group", "inputs": {"password": value}}
    cli.write("job.yml", json.dumps(job))
    run = cli.submit("job.yml", "--set", "environment_variables.DB_PASSWORD=" + value)
    cli.ok("wait", run)
    for name in ("job.yml", "plan.json", "record.json", "submission.txt"):
        assert "Hunter2" not in cli.read(run, name), name
    variables = {"DB_PASSWORD": value, "PGARGS": "host=h password=" + value}
    step = {"run": 'echo "password=$DB_PASSWORD"'}
    cli.write("environment.yml", json.dumps({"name": "x", "variables": variables, "build": [step]}))
    cli.ok("env", "lock", "environment.yml")
    assert "Hunter2" not in cli.read_project("environment.lock.json")
    logs = list(Path(cli.home, "envs").glob("*.log"))
    assert logs and not [path for path in logs if "Hunter2" in path.read_text()]


def test_the_password_of_an_account_is_in_no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by review: programs that a build starts inherited it, where Python had asked for the run."""
    environ = {"WORLDSIZE_HPCPACK_PASSWORD": "hunter2", "A": "1", "B": "2"}
    assert build_environ(Job(), environ) == {"A": "1", "B": "2"}
    assert build_environ(Job(secrets=("B",)), environ) == {"A": "1"}
