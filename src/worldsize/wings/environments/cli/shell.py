"""env shell: a shell, or one command, in an environment."""

from __future__ import annotations

import argparse
import os
import shlex
import sys

from worldsize.cli.console import set_completer
from worldsize.cli.output import report
from worldsize.wings.environments.cli.build import add_compute_option, ensure_environment
from worldsize.wings.environments.cli.shelf import complete_environments

_EXAMPLES = """examples:
  worldsize env shell torch                       an interactive shell
  worldsize env shell environment.yml -- python -c 'import torch; print(torch.__version__)'

The environment is built first where it is not there. Its modules, variables and activation scripts are in force, as
they are for a job. The exit code is the shell's, or the command's."""


def configure(action: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.usage = "worldsize env shell [options] SPEC [-- COMMAND …]"
    spec = parser.add_argument("spec", metavar="SPEC", help="a name, a path, a file, or a job file")
    set_completer(spec, complete_environments)
    add_compute_option(parser)
    parser.set_defaults(act=open_shell)


def open_shell(options: argparse.Namespace) -> int:
    from worldsize.agent.posix.processes import find_program
    from worldsize.errors import UsageError
    from worldsize.plan.setup_script import MODULE_LINES, bash_command, module_line
    from worldsize.trust.procfs import with_password

    if options.words is None and not (sys.stdin.isatty() and sys.stdout.isatty()):
        hint = f"without one: worldsize env shell {shlex.quote(options.spec)} -- COMMAND"
        raise UsageError("a shell needs a terminal", None, hint)
    environment, _ = ensure_environment(options, prefix=False)
    found = environment.activation(os.environ)
    lines = [*map(module_line, found.modules), *found.lines()]
    if options.words:
        last = f"exec {shlex.join(options.words)}"
    else:
        report("{}; leave it with exit".format(environment.prefix or "the current Python"))
        last = "exec {} -i".format(shlex.quote(os.environ.get("SHELL") or "bash"))
    sys.stdout.flush()
    words, variable = bash_command([*(MODULE_LINES if found.modules else ()), *lines, last])
    os.execve(find_program("bash", os.environ), words, {**with_password(os.environ), **variable})
