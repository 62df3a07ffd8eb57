"""The command `worldsize doctor`: what this machine and account can do, in one screen."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Mapping
from functools import partial

from worldsize.cli.check_results import CheckResults, exit_code
from worldsize.cli.console import add_output_option
from worldsize.cli.output import show, show_json
from worldsize.common.named_tuple import Any
from worldsize.compute.base import CheckResult, Compute
from worldsize.compute.capabilities import ACCESS, NODE_LIMIT
from worldsize.errors import ConfigError, WorldsizeError
from worldsize.jobspec.config.compute_types import LOCAL
from worldsize.jobspec.config.config import ComputeSettings, Config
from worldsize.jobspec.config.load import config_directory, load_config
from worldsize.jobspec.job import Job
from worldsize.service.computes import open_compute, python_path
from worldsize.state.check_rows import CheckRow
from worldsize.trust.keys import user_home
from worldsize.trust.owners import login_name
from worldsize.wings.doctor import facts
from worldsize.wings.doctor.programs import SECONDS, execute_all
from worldsize.wings.doctor.questions import commands
from worldsize.wings.doctor.screen import screen_lines
from worldsize.wings.doctor.subjects import computes, installation, machine, slurm
from worldsize.wings.doctor.subjects.computes import ComputeState
from worldsize.wings.doctor.subjects.installation import HOME
from worldsize.wings.doctor.subjects.rows import no

_EXAMPLES = """examples:
  worldsize doctor                     Python, Slurm, the home, GPUs, programs, extras: what is here, and each fix
  worldsize doctor --net               also ask the services of HPC Pack and Azure computes for their nodes
  worldsize doctor -o json             the same rows as data

`no` in a row is not an error by itself: the last lines name the computes on which jobs can run. The exit code is 0 if
that is every configured compute, and 1 if not. No other machine is contacted without --net, except by Slurm's
programs. A program that gives no answer in 5 s counts as unknown."""

_KEYS = "ssh.keys"
_LAST_WAIT = 0.5
"""Seconds for the file systems once all programs have ended."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("--net", action="store_true", help="also ask the services of HPC Pack and Azure computes")
    add_output_option(parser)
    parser.set_defaults(act=examine)


def examine(options: argparse.Namespace) -> int:
    began = time.monotonic()
    config, wrong = _load(os.environ)
    states, rows = _collect(config, os.environ, options.net)
    results = CheckResults(None, time.monotonic() - began, (), (*wrong, *rows))
    found = computes.verdicts(states, rows)
    if options.output == "json":
        show_json({**results.data(), "computes": [each._asdict() for each in found]})
    else:
        show(*screen_lines(results.rows), "", *computes.verdict_lines(found))
    return exit_code(results)


def _load(environ: Mapping[str, str]) -> tuple[Config, list[CheckRow]]:
    """Return the configuration. If it has errors, return one without files, and a row with the errors."""
    try:
        return load_config(config_directory(), environ), []
    except ConfigError as error:
        value = f"{error.where}: {error.what}" if error.where else error.what
        row = no("config.files", "the configuration", value, error.hint or "correct the file", needed=True)
        home = environ.get("WORLDSIZE_HOME") or os.path.join(user_home(environ), ".worldsize")
        return Config(home=home, computes={LOCAL: ComputeSettings()}), [row]


def _collect(config: Config, environ: Mapping[str, str], net: bool) -> tuple[list[ComputeState], list[CheckRow]]:
    """Return the states of the configured computes, and all rows. Programs and file systems are examined at the same
    time."""
    began, user = time.monotonic(), login_name(os.geteuid()) or str(os.geteuid())
    names = list(config.computes)
    results = facts.begin_all(
        {
            HOME: partial(facts.directory_facts, config.home),
            _KEYS: partial(facts.key_files, user_home(environ)),
            **{name: partial(_state, config, name, environ) for name in names},
        }
    )
    answers = execute_all(commands(python_path(config, LOCAL, environ), user, environ), environ)
    limits = facts.limit_facts()
    found = results(max(began + SECONDS, time.monotonic() + _LAST_WAIT))
    silent = CheckResult("notice", f"no answer in {SECONDS:g} s", None, "is the file system of its runs there?")
    states = [found[name] or ComputeState(name, config.computes[name].type, (silent,), hosted=True) for name in names]
    states = [each._replace(forbidden=_forbidden(config, each.name)) for each in states]
    if net:
        states = [_asked(each, config, environ) for each in states]
    has_slurm = any(each.type == "slurm" for each in states)
    rows = [
        *installation.installation_rows(facts.installation_facts()),
        *installation.configuration_rows(config),
        *installation.home_rows(found[HOME], config.home, SECONDS),
        *machine.job_rows(answers),
        *machine.limit_rows(limits),
        *machine.network_rows(limits, answers),
        *machine.ssh_rows(answers, found[_KEYS] or []),
        *machine.gpu_rows(answers, facts.gpu_devices()),
        *machine.software_rows(answers),
        *slurm.slurm_rows(answers, user, has_slurm),
        *(row for each in states for row in computes.compute_rows(each)),
    ]
    return states, rows


def _forbidden(config: Config, name: str) -> str:
    """Return the site's rule that forbids all jobs on the compute `name`, as text; "" if there is none."""
    for rule in config.forbidden:
        if rule.key == "compute" and name.lower() in rule.values:
            return f"forbidden by {rule.where}: {rule.why}"
    return ""


def _state(config: Config, name: str, environ: Mapping[str, str]) -> ComputeState:
    settings = config.computes[name]
    state = ComputeState(name, settings.type)
    runs_dir = settings.own_runs_dir or os.path.join(config.home, "runs")
    try:
        compute: Any = open_compute(config, name, environ)
        problems = compute.check_access() if ACCESS in compute.capabilities else []
        hosted = bool(compute.facts(Job()).hosted)
    except WorldsizeError as error:
        return state._replace(problems=(_problem(error),), hosted=True)
    except OSError as error:
        return state._replace(problems=(CheckResult("error", str(error)),), hosted=True)
    directory = None if hosted or settings.type == LOCAL else facts.directory_facts(runs_dir)
    return state._replace(problems=tuple(problems), hosted=hosted, directory=directory)


def _problem(error: WorldsizeError) -> CheckResult:
    return CheckResult("error", error.what, error.where, error.hint)


def _asked(state: ComputeState, config: Config, environ: Mapping[str, str]) -> ComputeState:
    """Return the state with the answer of the compute's service, if it has one."""
    if state.type in (LOCAL, "slurm") or any(each.level == "error" for each in state.problems):
        return state
    try:
        answer = "; ".join(_answers(open_compute(config, state.name, environ)))
    except WorldsizeError as error:
        return state._replace(problems=(_problem(error),))
    return state._replace(problems=(), answer=answer or "which has no nodes to ask for")


def _answers(compute: Compute) -> Iterator[str]:
    asked: Any = compute
    if "nodes" in compute.capabilities:
        nodes = asked.nodes()
        yield f"{sum(node.usable for node in nodes)} of {len(nodes)} nodes usable"
    elif NODE_LIMIT in compute.capabilities:
        limit = asked.node_limit()
        yield f"at most {limit} nodes" if limit is not None else "it answers"
