"""`modules:` of an environment, with the real Environment Modules: in force when it is built and when it is used."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from driver import Cli
from wheels import Links

_INITS = ["/etc/profile.d/%s.sh" % name for name in ("lmod", "z00_lmod", "modules")]
pytestmark = pytest.mark.skipif(not any(map(os.path.exists, _INITS)), reason="no environment modules here")


@pytest.fixture
def modules(cli: Cli) -> str:
    """A directory of modulefiles: a compiler's, and a Python's that would come first."""
    tools = os.path.join(cli.root, "tools")
    os.makedirs(tools)
    for name, text in (("mycc", "echo my compiler"), ("python", "echo the module's python")):
        with open(os.path.join(tools, name), "w") as file:
            file.write("#!/bin/sh\n%s\n" % text)
        os.chmod(os.path.join(tools, name), 0o755)
    text = "#%%Module\nprepend-path PATH %s\nprepend-path LD_LIBRARY_PATH /opt/of-module\nsetenv COLOUR green\n"
    cli.write("modules/mycc/1.0", text % tools)
    cli.write("modules/py/1.0", "#%%Module\nprepend-path PATH %s/bin\n" % sys.base_prefix)
    cli.environ["MODULEPATH"] = os.path.join(cli.project, "modules")
    return tools


def test_modules_are_loaded_and_the_environment_comes_before_them(cli: Cli, links: Links, modules: str) -> None:
    links.wheel("demo", "1.0")
    lines = ", ".join("'%s'" % line for line in (*links.lines, "demo"))
    cli.write(
        "job.yml",
        "command: mycc; echo $COLOUR $LD_LIBRARY_PATH; python -c 'import demo; print(demo.__version__)'\n"
        "environment:\n  python: '%d.%d'\n  modules: [mycc/1.0]\n  pip: [%s]\n  ld_library_path: /opt/mine\n"
        % (*sys.version_info[:2], lines),
    )
    printed = cli.ok("run", "job.yml", LD_LIBRARY_PATH="").lines
    assert printed == ["0:0: my compiler", "0:0: green /opt/mine:/opt/of-module", "0:0: 1.0"]


def test_build_steps_see_them(cli: Cli, links: Links, modules: str) -> None:
    lines = ", ".join("'%s'" % line for line in links.lines)
    recipe = "environment:\n  python: '%d.%d'\n  modules: [mycc/1.0]\n  pip: [%s]\n  prerequisites: [mycc]\n"
    steps = "  build: ['mycc > $PREFIX/made; echo $COLOUR >> $PREFIX/made']\n"
    cli.write("job.yml", "command: cat $VIRTUAL_ENV/made\n" + recipe % (*sys.version_info[:2], lines) + steps)
    assert cli.ok("run", "job.yml").lines == ["0:0: my compiler", "0:0: green"]


def test_a_modules_python_is_what_a_virtual_environment_is_made_of(cli: Cli, links: Links, modules: str) -> None:
    links.wheel("demo", "1.0")
    lines = ", ".join("'%s'" % line for line in (*links.lines, "demo"))
    show = "command: python -c 'import sys; print(sys.base_prefix)'\n"
    cli.write("job.yml", show + "environment:\n  modules: [py/1.0]\n  pip: [%s]\n" % lines)
    assert cli.ok("run", "job.yml").out == "0:0: %s\n" % sys.base_prefix


def test_a_module_that_is_not_there_fails_the_build_by_name(cli: Cli, links: Links, modules: str) -> None:
    lines = ", ".join("'%s'" % line for line in links.lines)
    cli.write("job.yml", "command: 'true'\nenvironment:\n  modules: [no/such]\n  pip: [%s]\n" % lines)
    result = cli("run", "job.yml")
    assert result.code == 1 and "no/such" in result.err
    assert cli.json("list") == []


def test_modules_alone_need_no_building(cli: Cli, modules: str) -> None:
    cli.write("job.yml", "command: echo $COLOUR\nenvironment:\n  modules: [mycc/1.0]\n  path: /opt/mine\n")
    assert cli.ok("run", "job.yml").out == "0:0: green\n"
    assert cli.json("env", "list") == []


def test_a_shell_has_them_too(cli: Cli, modules: str) -> None:
    cli.write("worldsize.toml", '[environment.mine]\nmodules = ["mycc/1.0"]\n')
    shell = [sys.executable, "-m", "worldsize", "env", "shell", "mine", "--", "sh", "-c", "echo $COLOUR; exit 3"]
    done = subprocess.run(shell, cwd=cli.project, env=cli.environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "green\n"), done.stderr
