"""The options of `run` and similar verbs, and their effect on a job."""

from __future__ import annotations

import argparse

from worldsize.cli.console import (
    add_output_option,
    add_set_option,
    complete_computes,
    complete_runs,
    parse_age,
    parse_count,
    set_completer,
)
from worldsize.common.named_tuple import Any
from worldsize.errors import UsageError
from worldsize.jobspec.job import Job
from worldsize.service.request import KeyOrigins


def add_run_options(parser: argparse.ArgumentParser, verb: str) -> None:
    parser.add_argument("-w", "--world", metavar="NxM", help="N nodes × M processes per node; N: nodes only")
    parser.add_argument("--nodes", type=int, metavar="N", help="the same as -w N")
    parser.add_argument("--nproc-per-node", type=int, metavar="M", help="processes per node, as -w NxM has them")
    add_set_option(parser)
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="a variable of the ranks; may be repeated"
    )
    parser.add_argument("--timeout", metavar="TIME", help="end the run after this time: 90 (seconds), 30m, 12h, 2d")
    parser.add_argument(
        "--tag",
        action="append",
        default=[],
        metavar="KEY[=VALUE]",
        help="a tag of the run; may be repeated",
        dest="tags",
    )
    compute = parser.add_argument(
        "--compute", metavar="NAME", help="where to run (default: from the job or configuration)"
    )
    set_completer(compute, complete_computes)
    parser.add_argument(
        "--data-parallel",
        nargs="?",
        const="split",
        metavar="split|scale",
        help="train a single-process script on all ranks; its batch size is that of all (split) or each rank's (scale)",
    )
    parser.add_argument("--name", help="the run's display name")
    parser.add_argument(
        "--virtual-gpus",
        type=int,
        metavar="N",
        help="rehearse on this machine: each node has N virtual GPUs",
    )
    _add_series_options(parser)
    parser.add_argument(
        "--no-check", action="store_true", help="skip the checks of the nodes before ranks start, and of the script"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be started; start nothing, write nothing"
    )
    add_output_option(parser)
    if verb == "run":
        parser.add_argument(
            "--debugpy",
            metavar="RANK",
            type=parse_count,
            help="this rank waits for a debugger; run prints the address to attach to",
        )
    if verb != "submit":
        parser.add_argument("-d", "--detach", action="store_true", help="do not follow: print the run id and return")
        parser.add_argument(
            "--fold", choices=("same", "numbers", "off"), help="fold lines equal on all ranks (default: same)"
        )
        parser.add_argument("-q", "--quiet", action="store_true", help="no logs while it runs")


def _add_series_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for several runs, and for runs that wait for others."""
    parser.add_argument(
        "--matrix",
        action="append",
        default=[],
        metavar="INPUT=V1,V2",
        help="one run for each value; if repeated, for each combination",
    )
    parser.add_argument("--count", type=int, metavar="N", help="N identical runs")
    parser.add_argument("--at-once", type=int, metavar="N", help="at most N of several runs at the same time")
    for option, meaning in (("--after", "has SUCCEEDED"), ("--after-any", "has ended, with any result")):
        after = parser.add_argument(
            option,
            action="append",
            default=[],
            metavar="RUN",
            help=f"start once that run {meaning}; may be repeated",
        )
        set_completer(after, complete_runs)


def with_options(job: Job, options: argparse.Namespace, again: bool) -> tuple[Job, Job]:
    """Return the job changed by the command-line options of `run`, and the same job without the changes of its size and
    its name. `again` means that it is the job of a former run. Raise UsageError if an option has no valid value; raise
    JobError."""
    settings = _settings(options)
    if settings:
        from worldsize.jobspec.reading.set_option import apply_overrides

        job = apply_overrides(job, settings)
    if again:
        from worldsize.service.secrets import refuse_masked

        refuse_masked(job)
    asked = job
    world = _world(options, job)
    if world:
        from worldsize.jobspec.overrides import with_world

        job = with_world(job, *world)
    if options.name:
        job = job._replace(display_name=options.name)
    return job, asked


def _settings(options: argparse.Namespace) -> list[str]:
    """Return the changes of the job by --set, --data-parallel, --env, --tag and --timeout as a list of KEY=VALUE, the
    form that --set accepts. Raise UsageError if an option has no valid value."""
    found = list(options.sets)
    found += ["data_parallel=" + options.data_parallel] if options.data_parallel else []
    for word in options.env:
        if "=" not in word or word.startswith("="):
            raise UsageError(f"{word.partition('=')[0]!r:.60} has no value", "--env", "write NAME=VALUE")
        found.append("environment_variables." + word)
    found += ["tags." + (word if "=" in word else word + "=") for word in options.tags]
    if options.timeout is not None:
        found.append(f"limits.timeout={_seconds(options.timeout):g}")
    return found


def _seconds(text: str) -> float:
    if text.isascii() and text.isdigit():
        return float(text)
    return parse_age(text, "--timeout")


def _world(options: argparse.Namespace, job: Job) -> tuple[str, str] | None:
    """Return the requested world size as text, N or `NxM` (nodes and processes per node), and the option that sets it:
    -w, --nodes or --nproc-per-node. Return None if no option sets it. Raise UsageError if -w is combined with one of
    the others."""
    said = {"--nodes": options.nodes, "--nproc-per-node": options.nproc_per_node}
    said = {name: number for name, number in said.items() if number is not None}
    if not said:
        return (options.world, "-w") if options.world else None
    where = next(iter(said))
    if options.world:
        raise UsageError("both set the number", f"-w, {where}", "leave one of them out")
    nodes = options.nodes if options.nodes is not None else job.resources.instance_count
    return (str(nodes) if options.nproc_per_node is None else f"{nodes}x{options.nproc_per_node}"), where


def key_origins(options: argparse.Namespace, job: Job, lines: Any) -> KeyOrigins:
    """Return a KeyOrigins, which states for messages where each key of the job was set: in which line of the job's file
    (`lines`), or by which option."""
    said = {"code": "--code"} if getattr(options, "code", None) else {}
    world = _world(options, job)
    if world:
        said.update(dict.fromkeys(("resources.instance_count", "distribution.process_count_per_instance"), world[1]))
    said.update({"limits.timeout": "--timeout"} if options.timeout is not None else {})
    if options.virtual_gpus is not None:
        said["virtual_gpus"] = "--virtual-gpus"
    if options.sets:
        from worldsize.jobspec.reading.set_option import override_origins

        said.update(override_origins(options.sets))
    return KeyOrigins(job.source, lines, said)
