"""run, submit, rerun: start a job; follow it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from worldsize.cli.console import (
    add_output_option,
    add_run_argument,
    complete_computes,
    complete_job_files,
    complete_runs,
    current_directory,
    find_runs,
    load_current_config,
    rehearsal_text,
    set_completer,
    size_text,
)
from worldsize.cli.output import report, report_message, show
from worldsize.cli.progress_line import NoticePrinter, ProgressLine
from worldsize.cli.run.job_source import requested_job
from worldsize.common.named_tuple import Any
from worldsize.errors import UsageError
from worldsize.jobspec.job import Job
from worldsize.plan.run_paths import RunPaths
from worldsize.registry import load_module
from worldsize.service.request import KeyOrigins, SubmissionRequest
from worldsize.service.submission.submit import start

_EXAMPLES = {
    "run": """examples:
  worldsize run job.yml                                 run a job file and follow it
  worldsize run job.yml -w 2x4 --set inputs.lr=0.1      another size, another input
  worldsize run -w 2x4 -- python train.py --lr 0.1      no file: the code is this directory
  worldsize run -w 2x4 --data-parallel -- python train.py    a script for one process, trained by 8
  worldsize run job.yml --matrix lr=0.1,0.01            one run for each value
  worldsize run job.yml --dry-run                       print what would be started

Ctrl-C cancels (a second one at once), Ctrl-\\ leaves the run running. The exit code is the first failing rank's:
128+N for signal N; 2 for a mistake in the job or the words; 130 when cancelled.""",
    "rehearse": """examples:
  worldsize rehearse job.yml                            a cluster's job on virtual nodes with virtual GPUs
  worldsize rehearse job.yml -w 2x2                     a smaller world
  worldsize rehearse -w 2x4 -- python train.py          no file: 4 virtual GPUs for 4 ranks per node

Each node has as many GPUs as those of the job's own compute: slurm.gpus_per_node, the configuration's gpus_per_node,
or one for each process. The exit code is that of run.""",
    "submit": """examples:
  id=$(worldsize submit job.yml)
  worldsize wait $id && worldsize logs $id""",
    "rerun": """examples:
  worldsize rerun                                       the latest run once more, with its own snapshot of the code
  worldsize rerun 20261121-1031 -w 4x4                  another size""",
}


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES[verb]
    if verb == "rerun":
        add_run_argument(parser)
        parser.set_defaults(act=rerun)
    else:
        job = parser.add_argument("job", nargs="?", metavar="JOB.YML", help="the job file; or a command after --")
        set_completer(job, complete_job_files)
        parser.add_argument(
            "--code", metavar="DIR", help="with a command after --: the code to snapshot (default: here)"
        )
        parser.usage = f"worldsize {verb} [options] (JOB.YML | -- COMMAND …)"
        parser.set_defaults(act=run_or_submit)
    parser.add_argument("-w", "--world", metavar="NxM", help="N nodes × M processes per node")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a key of the job", dest="sets"
    )
    compute = parser.add_argument(
        "--compute", metavar="NAME", help="where to run (default: as the job or configuration says)"
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
        help="rehearse on this machine: each node has N GPUs that there are not",
    )
    parser.add_argument(
        "--matrix", action="append", default=[], metavar="INPUT=V1,V2", help="one run for each value; each combination"
    )
    parser.add_argument("--count", type=int, metavar="N", help="N equal runs")
    parser.add_argument("--at-once", type=int, metavar="N", help="of several runs, at most N at the same time")
    for option, meaning in (("--after", "has SUCCEEDED"), ("--after-any", "has ended, however")):
        after = parser.add_argument(
            option,
            action="append",
            default=[],
            metavar="RUN",
            help=f"start once that run {meaning}; may be repeated",
        )
        set_completer(after, complete_runs)
    parser.add_argument("--no-check", action="store_true", help="check neither the nodes nor the script beforehand")
    parser.add_argument("--dry-run", action="store_true", help="print exactly what would be started; start nothing")
    add_output_option(parser)
    if verb != "submit":
        parser.add_argument("-d", "--detach", action="store_true", help="do not follow: print the run id and return")
        parser.add_argument(
            "--fold", choices=("same", "numbers", "off"), help="fold lines equal on all ranks (default: same)"
        )
        parser.add_argument("-q", "--quiet", action="store_true", help="no logs while it runs")


def run_or_submit(options: argparse.Namespace) -> int:
    _sort_out_data_parallel(options)
    job, warnings, lines = requested_job(options)
    return _run_with_options(options, job, warnings, lines)


def _sort_out_data_parallel(options: argparse.Namespace) -> None:
    """Take the value of `--data-parallel job.yml` for the job file, since it names no way."""
    value = options.data_parallel
    if options.job is None and options.words is None and value and value.endswith((".yml", ".yaml")):
        options.job, options.data_parallel = value, "split"


def rerun(options: argparse.Namespace) -> int:
    from worldsize.jobspec.reading.job_file import load_job
    from worldsize.service.ownership import danger_of_run
    from worldsize.trust.directories import refuse_foreign

    former = find_runs(options.run, "rerun").paths
    refuse_foreign(former.root, danger_of_run(former), "rerun")
    loaded = load_job(former.job)
    job = loaded.job
    if "_" in former.run_id:
        from worldsize.cli.run.array_options import to_single_job

        job = to_single_job(job, former)
    elif job.code is not None or job.additional_includes:
        job = job._replace(code=former.code, additional_includes=())
    if job.environment is not None:
        from worldsize.service.providers import find_provider

        environments = find_provider("environments")
        lost = environments.lost_variables(former.environment) if environments else None
        if lost is not None:
            names = dict.fromkeys((*job.secrets, *lost))
            job = job._replace(environment=former.environment, secrets=tuple(names))
    return _run_with_options(options, job, loaded.warnings, {}, again=True)


def _run_with_options(
    options: argparse.Namespace, job: Job, warnings: tuple[str, ...], lines: Any, again: bool = False
) -> int:
    sets = [*options.sets, *(["data_parallel=" + options.data_parallel] if options.data_parallel else [])]
    if sets:
        from worldsize.jobspec.reading.set_option import apply_overrides

        job = apply_overrides(job, sets)
    if again:
        from worldsize.service.secrets import refuse_masked

        refuse_masked(job)
    asked = job
    if options.world:
        from worldsize.jobspec.reading.overrides import with_world

        job = with_world(job, options.world)
    if options.name:
        job = job._replace(display_name=options.name)
    if job.matrix or options.matrix or options.count is not None or options.at_once is not None:
        from worldsize.cli.run.array_options import with_array_options

        job = with_array_options(job, options)
    for warning in warnings:
        report_message("warning: " + warning)
    cwd, config = current_directory(), load_current_config()
    if options.virtual_gpus is not None or options.verb == "rehearse" or job.virtual_gpus is not None:
        job = load_module("wings.rehearsal.command", "a rehearsal").with_rehearsal(job, options, config, asked)
    request = SubmissionRequest(
        job, config, options.compute, os.environ, cwd, _key_origins(options, job, lines), sys.argv
    )
    if options.no_check:
        request = request._replace(check={})
    if options.after or options.after_any:
        request = _with_dependencies(request, options)
    if options.dry_run:
        from worldsize.cli.run.dry_run import dry_run

        return dry_run(request, options.output == "json")
    if options.output == "json":
        raise UsageError("-o json goes with --dry-run", None, "worldsize status -o json tells of a run that is there")
    if options.verb == "submit":
        paths = _start(request)
        if job.virtual_gpus is not None:
            from worldsize.service.runs.run import Run

            plan = Run(paths, request.environ).plan
            report(f"run {paths.run_id} on {plan.compute}{rehearsal_text(plan)}")
        _print_id(paths.run_id)
        return 0
    return _start_and_follow(request, options)


def _with_dependencies(request: SubmissionRequest, options: argparse.Namespace) -> SubmissionRequest:
    from worldsize.service.submission.dependencies import find_dependencies
    from worldsize.store.find import find_run_paths

    def found(names: list[str]) -> list[RunPaths]:
        return [find_run_paths(request.config.home, name) for name in names]

    after = find_dependencies(found(options.after), os.environ) + find_dependencies(
        found(options.after_any), os.environ, any_end=True
    )
    return request._replace(after=after)


def _key_origins(options: argparse.Namespace, job: Job, lines: Any) -> KeyOrigins:
    said = {"code": "--code"} if getattr(options, "code", None) else {}
    if options.world:
        said.update(dict.fromkeys(("resources.instance_count", "distribution.process_count_per_instance"), "-w"))
    if options.virtual_gpus is not None:
        said["virtual_gpus"] = "--virtual-gpus"
    if options.sets:
        from worldsize.jobspec.reading.set_option import override_origins

        said.update(override_origins(options.sets))
    return KeyOrigins(job.source, lines, said)


def _print_id(run_id: str) -> None:
    try:
        show(run_id)
        sys.stdout.flush()
    except OSError:
        report(f"{run_id} goes on (worldsize logs -f {run_id})")
        raise


def _start(request: SubmissionRequest, submitting: Callable[[RunPaths], None] = lambda _: None) -> RunPaths:
    """Start the run, showing notices; and at a terminal, a line about how far it is."""
    told = ProgressLine() if sys.stderr.isatty() else NoticePrinter()
    try:
        return start(request, told, submitting)
    finally:
        told.clear()


def _start_and_follow(request: SubmissionRequest, options: argparse.Namespace) -> int:
    from worldsize.cli.runs.follow import FollowSignals, follow_to_end
    from worldsize.service.runs.open import open_runs

    signals = FollowSignals()

    def submitting(paths: RunPaths) -> None:
        signals.run = open_runs(paths, request.environ)

    runs = open_runs(_start(request, submitting), request.environ)
    report(f"{runs.noun} {runs.id}: {size_text(runs)}{rehearsal_text(runs.common)}")
    if options.detach:
        _print_id(runs.id)
        return 0
    return follow_to_end(runs, signals, options.fold, options.quiet)
