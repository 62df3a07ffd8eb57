"""import: a job file for a Slurm batch script."""

from __future__ import annotations

import argparse
import sys

from worldsize.cli.output import say_message, show_document
from worldsize.cli.shared import complete_scripts, completed_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.spec.batchimport import Imported

_EXAMPLES = """examples:
  worldsize import job.slurm > job.yml                  then: worldsize run job.yml --dry-run
  worldsize run job.slurm                               no job file needed: the script runs as it is

What is left out of the job file is said in comments, with its line. Nothing is executed."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    script = parser.add_argument("script", metavar="JOB.SLURM", help="the batch script; - reads it from standard input")
    completed_by(script, complete_scripts)
    parser.set_defaults(act=import_)


def import_(options: argparse.Namespace) -> int:
    from worldsize.spec.batchimport import import_script
    from worldsize.spec.batchjob import read_script
    from worldsize.spec.batchscript import MAX_BYTES
    from worldsize.spec.batchsize import asked

    source = "batch script" if options.script == "-" else options.script
    script, warnings = read_script(source, sys.stdin.buffer.read(MAX_BYTES + 1) if options.script == "-" else None)
    for warning in warnings:
        say_message("warning: " + warning)
    show_document(job_text(import_script(script, asked(script, source), source), source))
    return 0


def job_text(imported: Imported, source: str) -> str:
    """The job file: what was taken over, and in comments what was not."""
    from worldsize.spec.dump import dump_job

    lines = ["# From %s: worldsize run job.yml [-w NxM] [--dry-run]" % _comment(source)]
    if imported.left_out:
        lines += ["#", "# Left out:"]
        lines += ["#   " + _comment(text) for text in imported.left_out]
    lines += ["type: command", dump_job(imported.job)]
    return "\n".join(lines)


def _comment(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
