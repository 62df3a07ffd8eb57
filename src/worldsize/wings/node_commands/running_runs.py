"""The search for running runs whose nodes can be reached."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from worldsize.cli.console import current_directory, find_run, load_current_config
from worldsize.cli.output import report
from worldsize.common.named_tuple import NamedTuple
from worldsize.compute.base import Handle
from worldsize.compute.capabilities import CanExecute, NodeCommand
from worldsize.errors import NotFound, UsageError
from worldsize.plan.plan import Plan
from worldsize.service.compute_nodes import require_exec
from worldsize.service.runs.run import Run
from worldsize.state.exit_records import read_hosts
from worldsize.state.records import RunState, Status

_SEARCH_LIMIT = 100
_RUNNING = (RunState.STARTING, RunState.RUNNING, RunState.STOPPING)


class RunningRun(NamedTuple):
    """A running run whose nodes can be reached. `hosts` contains the names of its nodes, as far as its agents have
    reported them."""

    run: Run
    compute: CanExecute
    handle: Handle
    hosts: Mapping[int, str]

    def node_command(self, argv: Sequence[str], nodes: Sequence[int]) -> NodeCommand:
        paths = self.run.paths
        return NodeCommand(tuple(argv), tuple(nodes), paths.code, self.run.plan, paths, self.hosts)


def find_reachable(name: str | None, verb: str) -> RunningRun | None:
    """Return the running run named `name`. Without a name, return the newest running run that was started from this
    directory, including elements of arrays, and report its id; None if there is none. `verb` is the command (exec or
    shell) for messages. Raise UsageError as `find_running`."""
    if name:
        return find_running(find_run(name), verb)
    for run, status in _find_unfinished_runs(load_current_config().home, os.environ):
        if status.state in _RUNNING:
            report(f"{verb} on {run.id}")
            return find_running(run, verb, status)
    return None


def find_running(run: Run, verb: str, status: Status | None = None) -> RunningRun:
    """Return `run` with its compute, handle and host names, by which its nodes are reached. Raise UsageError if it is
    not running (any more, or yet), or if its compute cannot execute commands. `status` is the run's status if it has
    just been read."""
    run.refuse_foreign(verb)
    status = status or run.look()
    if status.state not in _RUNNING:
        why = ": " + status.message if status.message and not status.final else ""
        hint = "`worldsize list --state RUNNING` lists running runs"
        raise UsageError(f"{verb} needs a running run, and {run.id} is {status.state}{why}", None, hint)
    handle = run.native()
    if handle is None:
        raise UsageError(f"{run.id} is not submitted yet", None, "try again in a moment")
    hosts = read_hosts(run.paths, [node.node_rank for node in run.plan.agents])
    return RunningRun(run, require_exec(run.compute), handle, hosts)


def no_running_run_error(
    hint: str = "start one, or ask for nodes: worldsize exec -w 2 -- COMMAND",
) -> NotFound:
    return NotFound("no run is running", None, hint)


def choose_nodes(words: Sequence[str], plan: Plan, hosts: Mapping[int, str]) -> tuple[int, ...]:
    """Return the numbers of the run's nodes that the words of `--node` name, by number (`0,2-3`) or by the host's name;
    all nodes if `words` is empty."""
    from worldsize.logs.selection import parse_numbers

    if not words:
        return tuple(node.node_rank for node in plan.nodes)
    names = {name: number for number, name in hosts.items()}
    found: set[int] = set()
    for each in ",".join(words).split(","):
        found.update((names[each],) if each in names else parse_numbers(each, len(plan.nodes), "node"))
    return tuple(sorted(found))


def _find_unfinished_runs(home: str, environ: Mapping[str, str]) -> Iterator[tuple[Run, Status]]:
    from worldsize.service.runs.open import open_runs
    from worldsize.store.find import is_replaced, run_paths
    from worldsize.store.started_from import started_from

    for run_id in started_from(home, current_directory())[:_SEARCH_LIMIT]:
        paths = run_paths(home, run_id)
        if is_replaced(home, run_id) or os.path.exists(paths.result):
            continue
        several = open_runs(paths, environ)
        yield from zip(several.runs(), several.statuses(), strict=True)
