"""The verb `export`: a job file as a pure file of Azure Machine Learning."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from worldsize.cli.console import (
    add_output_option,
    add_set_option,
    complete_job_files,
    current_directory,
    set_completer,
)
from worldsize.cli.output import report, report_message, show_document, show_json
from worldsize.errors import StorageError, UsageError
from worldsize.wings.azure.export.rows import IMPOSSIBLE, ExportRow

_EXAMPLES = """examples:
  worldsize export azureml job.yml > azure/job.yml      what each key became, or why it is left out, on standard error
  worldsize export azureml job.yml --to azure.yml -w 2x4   paths in the file are relative to its directory
  worldsize export azureml job.yml --set compute=azureml:gpu-cluster
  worldsize export azureml job.yml --to azure.yml -o json   the table as JSON

The file has only keys of Azure: az ml job create -f azure.yml takes it. Exit code 2, and nothing is written, if a
key has no meaning there."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("target", choices=("azureml",), metavar="azureml", help="whose file to write")
    job = parser.add_argument("job", metavar="JOB.YML", help="the job file")
    set_completer(job, complete_job_files)
    parser.add_argument(
        "--to", metavar="FILE", help="write it there, with paths relative to its directory (default: stdout)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE")
    parser.add_argument("-w", "--world", metavar="NxM", help="N nodes × M processes per node")
    add_set_option(parser)
    add_output_option(parser)
    parser.set_defaults(act=export)


def export(options: argparse.Namespace) -> int:
    from worldsize.jobspec.dump import dump_tree
    from worldsize.jobspec.overrides import with_world
    from worldsize.jobspec.reading.job_file import load_job
    from worldsize.jobspec.reading.set_option import apply_overrides
    from worldsize.wings.azure.export.job import export_job

    if options.output == "json" and options.to is None:
        raise UsageError("the table and the file cannot both be standard output", "-o json", "name a file with --to")
    loaded = load_job(options.job)
    job = apply_overrides(loaded.job, options.sets) if options.sets else loaded.job
    if options.world:
        job = with_world(job, options.world)
    for warning in loaded.warnings:
        report_message("warning: " + warning)
    target = os.path.join(current_directory(), options.to or options.job)
    exported = export_job(job, os.path.dirname(os.path.abspath(target)))
    problems = [row for row in exported.rows if row.verdict == IMPOSSIBLE]
    if problems:
        raise UsageError(_problem_text(problems), options.job)
    text = dump_tree(exported.tree)
    if options.to is None:
        show_document(text)
    else:
        _write(target, options.to, text, options.force)
    if options.output == "json":
        show_json([row._asdict() for row in exported.rows])
    else:
        report(*_table(exported.rows))
    return 0


def _problem_text(problems: Sequence[ExportRow]) -> str:
    """Return the text of the error about keys that cannot be exported: one problem in one line, or several in the lines
    below their number."""
    lines = [f"{row.key}: {row.text}" for row in problems]
    return lines[0] if len(lines) == 1 else "\n  ".join([f"{len(lines)} problems:", *lines])


def _table(rows: Sequence[ExportRow]) -> list[str]:
    width = max((len(row.key) for row in rows), default=0)
    return [f"{row.verdict:10}  {row.key:{width}}  {row.text}" for row in rows]


def _write(path: str, said: str, text: str, force: bool) -> None:
    from worldsize.trust.documents import open_document, write_document

    try:
        if force:
            write_document(path, text.encode())
            return
        with open_document(path, new=True) as file:
            file.write(text)
    except FileExistsError:
        raise UsageError("exists already", said, "--force overwrites it") from None
    except OSError as error:
        raise StorageError(f"cannot be written: {error.strerror}", said) from None
