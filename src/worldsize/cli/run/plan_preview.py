"""The text that `--dry-run` shows: exactly what would be started. Values that are only known at the start are in angle
brackets."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence

from worldsize.agent.launchers.base import find_launcher
from worldsize.agent.launchers.rank_process import NodeLaunch, Process
from worldsize.cli.console import rehearsal_text
from worldsize.common.path_mapping import to_node_path
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.node_disk import resolve_placeholders
from worldsize.plan.plan import NodePlan, Plan, RankStart
from worldsize.plan.rank_environment import scrub
from worldsize.plan.rank_variables import CONVENTIONS, LOOPBACK, Host, RendezvousResult
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.service.request import PlannedJob
from worldsize.service.secrets import split_secrets
from worldsize.trust.secrets import mask, mask_argv, mask_values

_SHOWN = 8
_HEAD = "<head>"
_UNKNOWN = -1
_ALWAYS = ("OMP_NUM_THREADS", "PYTHONUNBUFFERED")
_THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
_PREFIXED = ("PATH", "PYTHONPATH")
_NUMBERS = ("SLURM_JOB_ID", "SLURM_JOBID", "CCP_JOBID")
"""Variables whose value is the second in which the run is created."""


def preview(planned: PlannedJob, environ: Mapping[str, str]) -> list[str]:
    """Return the lines that `--dry-run` shows for a planned job: the submission, the command, and every rank's
    variables (the first ranks of a large run). Of the variables, those that differ from `environ` are shown, and the
    job's own once for all ranks. The run's id is RUN."""
    plan = resolve_placeholders(split_secrets(planned.plan)[0], "<local>")
    rendered = planned.compute.render(planned.job, plan, planned.paths, dict).preview
    lines = [
        f"# {plan.name} on {plan.compute}: {len(plan.nodes)} node(s), world size {plan.world_size}",
        *(["# " + rehearsal_text(plan)[2:]] if plan.rehearsal else []),
        "# framework {}, launcher {}, conventions {}".format(
            plan.framework, plan.launcher, ", ".join(plan.conventions or CONVENTIONS)
        ),
        "# threads per rank: {}; CPU binding: {}".format(
            plan.threads or "the node's share", "per rank, by each node" if plan.bind == "node" else "none"
        ),
        "# stop: TERM, {:g} s, KILL; time limit: {}".format(
            plan.grace, f"{plan.timeout:g} s" if plan.timeout else "none"
        ),
        f"# start: {start_text(plan.start)}",
        *mask_values(rendered.rstrip(), plan_secret_values(planned.plan)).split("\n"),
        "",
        "# the {}, in the snapshot of {}".format(
            "batch script" if plan.batch else "command of every rank", planned.job.code or "no code"
        ),
        _command(plan.argv),
    ]
    if plan.environment:
        lines += ["", "# the job's variables"]
        lines += [f"{name}={_quote(mask(name, value))}" for name, value in plan.environment.items()]
    world = RendezvousResult(_HEAD, _UNKNOWN, _hosts(planned))
    paths = RunPaths(to_node_path(planned.paths.root, planned.facts.mapped))
    launcher, shown = find_launcher(plan.launcher), 0
    for node in plan.agents:
        for process in launcher.processes(NodeLaunch(plan, world, node, paths, environ)) if shown < _SHOWN else ():
            if shown < _SHOWN:
                lines += ["", _title(plan, node, process)]
                if process.argv != plan.argv:
                    lines.append(_with_placeholders(_command(process.argv)))
                lines += [f"{name}={mask(name, text)}" for name, text in _variables(plan, process, environ)]
                shown += len(process.ranks)
    if shown < plan.world_size and plan.batch is None:
        lines += ["", f"# … and {plan.world_size - shown} more ranks"]
    return lines


def start_text(start: RankStart) -> str:
    """Return how the ranks of a run start, plainly or from a process with preloaded modules (warm), and why, in
    words."""
    if not start.modules:
        return f"plain ({start.reason})"
    return f"warm: each node imports {', '.join(start.modules)} once ({start.reason})"


def _command(argv: Sequence[str]) -> str:
    """Return the words `argv` of a command as a command line quoted for bash, with secrets masked."""
    return " ".join(map(_quote, mask_argv(argv)))


def _quote(word: str) -> str:
    """Return a word quoted for bash, on one line."""
    if word.isprintable():
        return shlex.quote(word)
    from worldsize.logs.text import escape

    return "$'{}'".format(escape(word.replace("\\", "\\\\").replace("'", "\\'")))


def _hosts(planned: PlannedJob) -> tuple[Host, ...]:
    """Return a Host for each node of a planned job: this machine's name and cores for its virtual nodes; placeholders
    for nodes elsewhere, which are not known before the run starts."""
    nodes = planned.plan.nodes
    if "local" in planned.compute.capabilities:
        own = Host(os.uname().nodename, os.cpu_count() or 1, LOOPBACK)
        return tuple(own._replace(ports=(_UNKNOWN,) * len(node.ranks)) for node in nodes)
    cores = planned.facts.cores_per_node or _UNKNOWN
    unknown = (Host(f"<node {node.node_rank}>", cores, f"<node {node.node_rank}>") for node in nodes)
    return tuple(host._replace(ports=(_UNKNOWN,) * len(node.ranks)) for host, node in zip(unknown, nodes, strict=True))


def _title(plan: Plan, node: NodePlan, process: Process) -> str:
    first, last = process.ranks[0], process.ranks[-1]
    title = launcher_facts(plan.launcher).title
    return "# " + title.format(node=node.node_rank, first=first, last=last, world=plan.world_size)


def _variables(plan: Plan, process: Process, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    inherited = scrub(environ)
    always = (*_ALWAYS, "CUDA_VISIBLE_DEVICES") if plan.visible_devices else _ALWAYS
    first = [name for name in (*_PREFIXED, *_ALWAYS) if name in process.environment]
    for name in dict.fromkeys((*first, *process.environment)):
        value = process.environment[name]
        if name in plan.environment and plan.environment[name] == value and name not in _PREFIXED:
            continue
        before = inherited.get(name)
        if name in _NUMBERS:
            yield name, "<the second of the start>"
        elif name in _THREADS and plan.threads is None and before is None:
            yield name, "<the node's share of cores>"
        elif name in _PREFIXED and before and value.endswith(":" + before):
            yield name, f"{value[: -len(before)]}${name}"
        elif before != value or name in always:
            yield name, "<cores>" if value == str(_UNKNOWN) and name != "MASTER_PORT" else _with_placeholders(value)


def _with_placeholders(text: str) -> str:
    """Return a text of the dry run with placeholders for the port of the rendezvous and a node's cores, which are not
    known before the run starts."""
    if text == str(_UNKNOWN):
        return "<port>"
    return text.replace(f":{_UNKNOWN}", ":<port>").replace(f"> {_UNKNOWN}", "> <cores>")
