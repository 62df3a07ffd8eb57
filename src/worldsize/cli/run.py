"""run, submit, rerun: start a job; follow it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from worldsize.cli.shared import (
    add_run,
    clean,
    complete_computes,
    complete_job_files,
    completed_by,
    config_here,
    find_run,
    here,
    say,
    size,
)
from worldsize.cli.ticker import Notices, Ticker
from worldsize.errors import UsageError
from worldsize.plan.paths import RunPaths
from worldsize.service.places import Places
from worldsize.service.prepare import Request, plan_job
from worldsize.service.run import Run
from worldsize.service.submit import start
from worldsize.spec.job import Job

_EXAMPLES = {
    "run": """examples:
  worldsize run job.yml                                 run a job file and follow it
  worldsize run job.yml -w 2x4 --set inputs.lr=0.1      another size, another input
  worldsize run -w 2x4 -- python train.py --lr 0.1      no file: the code is this directory
  worldsize run job.yml --dry-run                       print what would be started

Ctrl-C cancels (a second one at once), Ctrl-\\ leaves the run running. The exit code is the first failing rank's:
128+N for signal N; 2 for a mistake in the job or the words; 130 when cancelled.""",
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
        add_run(parser)
        parser.set_defaults(act=rerun)
    else:
        job = parser.add_argument("job", nargs="?", metavar="JOB.YML", help="the job file; or a command after --")
        completed_by(job, complete_job_files)
        parser.add_argument(
            "--code", metavar="DIR", help="with a command after --: the code to snapshot (default: here)"
        )
        parser.usage = "worldsize %s [options] (JOB.YML | -- COMMAND …)" % verb
        parser.set_defaults(act=run_or_submit)
    parser.add_argument("-w", "--world", metavar="NxM", help="N nodes × M processes per node")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a key of the job", dest="sets"
    )
    compute = parser.add_argument(
        "--compute", metavar="NAME", help="where to run (default: as the job or configuration says)"
    )
    completed_by(compute, complete_computes)
    parser.add_argument("--name", help="the run's display name")
    parser.add_argument("--dry-run", action="store_true", help="print exactly what would be started; start nothing")
    if verb != "submit":
        parser.add_argument("-d", "--detach", action="store_true", help="do not follow: print the run id and return")
        parser.add_argument(
            "--fold", choices=("same", "numbers", "off"), help="fold lines equal on all ranks (default: same)"
        )
        parser.add_argument("-q", "--quiet", action="store_true", help="no logs while it runs")


def run_or_submit(options: argparse.Namespace) -> int:
    job, warnings, lines = _job(options)
    return _go(options, job, warnings, lines)


def rerun(options: argparse.Namespace) -> int:
    from worldsize.spec.jobfile import load_job

    former = find_run(options.run)
    loaded = load_job(former.paths.job)
    job = loaded.job
    if job.code is not None:
        job = job._replace(code=former.paths.code)
    return _go(options, job, loaded.warnings, {})


def _job(options: argparse.Namespace) -> tuple[Job, tuple[str, ...], Any]:
    if options.words is not None:
        if options.job is not None:
            raise UsageError("both a job file (%s) and a command after --" % options.job, None, "give one of them")
        if not options.words or not options.words[0]:
            raise UsageError("no command after --", None, "worldsize run -w 2x4 -- python train.py")
        code = os.path.abspath(os.path.join(here(), options.code or ""))
        return Job(command=_quoted(options.words), argv=tuple(options.words), code=code, source="command line"), (), {}
    if options.job is None:
        raise UsageError(
            "nothing to run", None, "name a job file, or a command: worldsize run -w 2x4 -- python train.py"
        )
    if options.code:
        raise UsageError("--code goes with a command after --", None, "a job file says code: itself")
    from worldsize.spec.jobfile import load_job

    loaded = load_job(_job_file(options.job, options.typed))
    return loaded.job, loaded.warnings, loaded.lines


def _job_file(name: str, typed: list[str]) -> str:
    """Raises UsageError for what is plainly meant otherwise, such as a script, and for a file that is not there."""
    if name.endswith((".yml", ".yaml")) and os.path.exists(name):
        return name
    from worldsize.cli.mistakes import no_such_file, not_a_job_file

    mistake = not_a_job_file(name, typed)
    if mistake is not None:
        raise mistake
    if not os.path.lexists(name):
        raise no_such_file(name)
    return name


def _quoted(words: list[str]) -> str:
    import shlex

    return shlex.join(words)


def _go(options: argparse.Namespace, job: Job, warnings: tuple[str, ...], lines: Any) -> int:
    if options.sets:
        from worldsize.spec.overrides import apply_overrides

        job = apply_overrides(job, options.sets)
    if options.world:
        from worldsize.spec.overrides import with_world

        job = with_world(job, options.world)
    if options.name:
        job = job._replace(display_name=options.name)
    for warning in warnings:
        say("warning: " + clean(warning))
    cwd = here()
    request = Request(job, config_here(), options.compute, os.environ, cwd, _places(options, job, lines), sys.argv)
    if options.dry_run:
        return _dry_run(request)
    if options.verb == "submit":
        print(_start(request).run_id)
        return 0
    return _run(request, options)


def _places(options: argparse.Namespace, job: Job, lines: Any) -> Places:
    said = {"code": "--code"} if getattr(options, "code", None) else {}
    if options.world:
        said.update(dict.fromkeys(("resources.instance_count", "distribution.process_count_per_instance"), "-w"))
    if options.sets:
        from worldsize.spec.overrides import override_places

        said.update(override_places(options.sets))
    return Places(job.source, lines, said)


def _start(request: Request, submitting: Callable[[RunPaths], None] = lambda _: None) -> RunPaths:
    """With notices; and at a terminal, with a line about how far it is."""
    told = Ticker() if sys.stderr.isatty() else Notices()
    try:
        return start(request, told, submitting)
    finally:
        told.done()


def _dry_run(request: Request) -> int:
    from worldsize.cli.preview import preview

    paths = RunPaths(os.path.join(request.config.home, "runs", "RUN"))
    prepared = plan_job(request, paths, time.time())
    elsewhere = request.config.computes[prepared.plan.compute].runs_dir
    if elsewhere:
        paths = RunPaths(os.path.join(elsewhere, "RUN"))
        prepared = plan_job(request, paths, time.time())
    for notice in prepared.notices:
        Notices().notice(notice.what)
    sys.stdout.write(preview(prepared, paths, request.environ))
    return 0


def _run(request: Request, options: argparse.Namespace) -> int:
    from worldsize.cli.follow import Signals, follow_to_end

    signals = Signals()

    def submitting(paths: RunPaths) -> None:
        signals.run = Run(paths, request.environ)

    run = Run(_start(request, submitting), request.environ)
    say("run %s: %s on %s" % (run.id, size(len(run.plan.nodes), run.plan.world_size), run.plan.compute))
    if options.detach:
        print(run.id)
        return 0
    return follow_to_end(run, signals, options.fold, options.quiet)
