"""The verbs run, submit, rehearse and rerun: they start a job, and all but submit follow it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from worldsize.cli.console import (
    add_run_argument,
    complete_job_files,
    current_directory,
    find_runs,
    load_current_config,
    rehearsal_text,
    set_completer,
    size_text,
)
from worldsize.cli.output import report, report_message, show, show_json
from worldsize.cli.progress_line import NoticePrinter, ProgressLine
from worldsize.cli.run.job_source import requested_job
from worldsize.cli.run.run_options import add_run_options, key_origins, with_options
from worldsize.common.named_tuple import Any
from worldsize.jobspec.job import Job
from worldsize.plan.run_paths import RunPaths
from worldsize.registry import load_module
from worldsize.service.request import SubmissionRequest
from worldsize.service.submission.submit import start
from worldsize.state.notices import Notice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.service.runs.array import RunArray
    from worldsize.service.runs.run import Run

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
    add_run_options(parser, verb)


def run_or_submit(options: argparse.Namespace) -> int:
    _sort_out_data_parallel(options)
    job, warnings, lines = requested_job(options)
    return _run_with_options(options, job, warnings, lines)


def _sort_out_data_parallel(options: argparse.Namespace) -> None:
    """Use the value of the option `--data-parallel` as the job file if it is the name of a YAML file and no job or
    command is given, as in `run --data-parallel job.yml`. The mode of data parallelism is then the default, "split"."""
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
    job, asked = with_options(job, options, again)
    if job.matrix or options.matrix or options.count is not None or options.at_once is not None:
        from worldsize.cli.run.array_options import with_array_options

        job = with_array_options(job, options)
    for warning in warnings:
        report_message("warning: " + warning)
    told = tuple(Notice("job-file", warning) for warning in warnings)
    cwd, config = current_directory(), load_current_config()
    if options.virtual_gpus is not None or options.verb == "rehearse" or job.virtual_gpus is not None:
        rehearsals = load_module("wings.rehearsal.command", "a rehearsal")
        job, said = rehearsals.with_rehearsal(job, options, config, asked)
        told += said
    request = SubmissionRequest(
        job, config, options.compute, os.environ, cwd, key_origins(options, job, lines), sys.argv, told=told
    )
    if options.no_check:
        request = request._replace(check={})
    if getattr(options, "debugpy", None) is not None:
        request = request._replace(debugger=options.debugpy)
    if options.after or options.after_any:
        request = _with_dependencies(request, options)
    if options.dry_run:
        from worldsize.cli.run.dry_run import dry_run

        return dry_run(request, options.output == "json")
    if options.verb == "submit":
        paths = start_run(request)
        if job.virtual_gpus is not None:
            plan = _open(paths, request).common
            report(f"run {paths.run_id} on {plan.compute}{rehearsal_text(plan)}")
        _print_submitted(paths, request, options)
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


def _open(paths: RunPaths, request: SubmissionRequest) -> Run | RunArray:
    from worldsize.service.runs.open import open_runs  # imported here because a submission alone does not need it

    return open_runs(paths, request.environ)


def _print_submitted(paths: RunPaths, request: SubmissionRequest, options: argparse.Namespace) -> None:
    """Print the id of the submitted run or array on stdout, or with -o json its present status. If stdout cannot be
    written, report that the run continues, and raise OSError."""
    try:
        if options.output == "json":
            from worldsize.cli.runs.status import status_data

            runs = _open(paths, request)
            show_json(status_data(runs, runs.statuses()))
        else:
            show(paths.run_id)
        sys.stdout.flush()
    except OSError:
        report(f"{paths.run_id} continues (worldsize logs -f {paths.run_id})")
        raise


def start_run(request: SubmissionRequest, submitting: Callable[[RunPaths], None] = lambda _: None) -> RunPaths:
    """Start the run or array that `request` describes, and return its paths. Meanwhile show notices, and at a terminal
    a line with the progress. `submitting` is called with the paths right before the submission."""
    told = ProgressLine() if sys.stderr.isatty() else NoticePrinter()
    try:
        return start(request, told, submitting)
    finally:
        told.clear()


def _start_and_follow(request: SubmissionRequest, options: argparse.Namespace) -> int:
    from worldsize.cli.run.follow_signals import FollowSignals

    signals = FollowSignals()
    paths = start_run(request, lambda _: signals.hold())
    # The code that follows the run is imported while its ranks start.
    from worldsize.cli.runs.follow import follow_to_end

    runs = _open(paths, request)
    signals.attach(runs)
    report(f"{runs.noun} {runs.id}: {size_text(runs)}{rehearsal_text(runs.common)}")
    if options.detach:
        _print_submitted(paths, request, options)
        return 0
    code = follow_to_end(runs, signals, options.fold, options.quiet, options.output == "json")
    runs.wait_for_notify()
    return code
