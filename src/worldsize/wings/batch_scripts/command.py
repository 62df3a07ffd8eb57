"""The command `import`: writes the job file of a Slurm batch script. The job file names the script, and repeats in its
own keys those options that the keys express exactly."""

from __future__ import annotations

import argparse
import sys

from worldsize.cli.console import set_completer
from worldsize.cli.output import report_message, show_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from worldsize.wings.batch_scripts.script.importer import ImportedJob

_EXAMPLES = """examples:
  worldsize import job.slurm > job.yml                  then: worldsize run job.yml --dry-run
  worldsize run job.slurm                               no job file needed: the script runs as it is

The job file keeps the script: it names the file, or, for standard input, holds its text. #SBATCH lines that
a job file has keys for become keys, to be changed; the others stay in the script. Nothing is executed."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    script = parser.add_argument("script", metavar="JOB.SLURM", help="the batch script; - reads it from standard input")
    set_completer(script, complete_scripts)
    parser.set_defaults(act=import_batch_script)


def complete_scripts(prefix: str, **_: Any) -> list[str]:
    from argcomplete.completers import FilesCompleter

    return list(FilesCompleter(("slurm", "sbatch", "sh"))(prefix))


def import_batch_script(options: argparse.Namespace) -> int:
    from worldsize.jobspec.paths import printable_path
    from worldsize.wings.batch_scripts.script.importer import import_script
    from worldsize.wings.batch_scripts.script.job import read_script
    from worldsize.wings.batch_scripts.script.parse import MAX_BYTES

    path = None if options.script == "-" else options.script
    source = printable_path(path or "batch script")
    given = None if path else sys.stdin.buffer.read(MAX_BYTES + 1).decode("utf-8", "surrogateescape")
    script, warnings = read_script(path or source, given)
    for warning in warnings:
        report_message("warning: " + warning)
    show_document(job_text(import_script(script, source, path), source))
    return 0


def job_text(imported: ImportedJob, source: str) -> str:
    """Return the text of the job file for an imported batch script, as YAML. Comments in the text name the script's
    `source` and list the options that only the script contains."""
    from worldsize.jobspec.dump import dump_tree

    lines = [f"# {_comment_text(source)} as a job: worldsize run job.yml [-w NxM] [--set KEY=VALUE] [--dry-run]"]
    lines.append("# The script runs as it is. Keys here win over its #SBATCH lines.")
    if imported.left:
        lines.append("# In the script only:")
    for option in imported.left:
        value = "" if option.value is None else "=" + option.value
        lines.append(f"#   line {option.line}: --{option.name}{_comment_text(value)}")
    return "\n".join([*lines, dump_tree(imported.tree)])


def _comment_text(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
